//! The layers of the recommended stack, each from its settings and what code does to it.

mod deciding;
mod identity;
mod sight;

use std::env;

pub(super) use self::{
    deciding::{fields, hooks, permission, pin, session, timeout, validate, visibility},
    identity::{authenticate, challenge, step_up},
    sight::{audit, redact, redactor, telemetry},
};
use super::settings::SettingsError;
use crate::model::Secret;

/// Fails for what this build does not have.
#[allow(dead_code, reason = "each feature has its place")]
pub(super) fn lacks<T>(place: &'static str, feature: &'static str) -> Result<T, SettingsError> {
    Err(SettingsError::Feature { place, feature })
}

/// The environment variable that a place names.
pub(super) fn variable(place: impl Into<String>, name: &str) -> Result<Secret, SettingsError> {
    env::var(name).map(Secret::new).map_err(|error| SettingsError::invalid(place, format!("the environment variable `{name}`: {error}")))
}
