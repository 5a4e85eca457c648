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

/// The environment variable that a place names. An empty one is no secret.
pub(super) fn variable(place: impl Into<String>, name: &str) -> Result<Secret, SettingsError> {
    let wrong = |why: String| SettingsError::invalid(place, format!("the environment variable `{name}`: {why}"));
    match env::var(name) {
        Ok(value) if value.trim().is_empty() => Err(wrong("it is empty".to_owned())),
        Ok(value) => Ok(Secret::new(value)),
        // The error of one that is no text would show it.
        Err(env::VarError::NotUnicode(_)) => Err(wrong("it is no text".to_owned())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// Fails for a number that would take more room than there may be.
pub(super) fn at_most(place: &str, value: usize, most: usize) -> Result<(), SettingsError> {
    if value > most {
        return Err(SettingsError::invalid(place, format!("{value} is more than the {most} that there may be")));
    }
    Ok(())
}
