//! Whatever public type may hold a secret shows it nowhere.

mod list;
mod types;
