//! The layers that decide about calls and change what goes through: what each does, and where it stands.

mod hooks;
mod order;
mod permission;
mod redact;
mod reload;
mod session;
mod validate;
