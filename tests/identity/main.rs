//! Who asks, and with which credentials.

#![allow(clippy::needless_pass_by_value, reason = "`with(json!({ .. }))` reads better than `with(&json!({ .. }))`")]

mod authenticate;
mod challenge;
mod credential;
mod jwt;
mod keys;
mod mint;
mod oauth;
mod scopes;
mod secrets;
mod server;
mod step_up;
