//! Who asks, and with which credentials.

#![allow(clippy::needless_pass_by_value, reason = "`with(json!({ .. }))` reads better than `with(&json!({ .. }))`")]

mod authenticate;
mod challenge;
mod credential;
mod jwt;
mod keys;
mod mint;
mod scopes;
mod secrets;
mod step_up;
