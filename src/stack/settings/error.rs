use thiserror::Error;

use crate::error::BoxError;

/// Why a stack cannot be as its settings say.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// They cannot be read.
    #[error("{}{why}", at(place))]
    Unreadable {
        /// Where, such as `permission.rules[2].effect`; empty for the whole.
        place: String,
        /// What was found, and what was expected.
        why: String,
    },
    /// They ask for what this build does not have.
    #[error("{}this needs the feature `{feature}` of toolstack", at(place))]
    Feature {
        /// Where.
        place: &'static str,
        /// The feature to build with.
        feature: &'static str,
    },
    /// They ask for what only code can give.
    #[error("{}it lacks {what}", at(place))]
    Missing {
        /// Where.
        place: &'static str,
        /// What is to be named or given.
        what: &'static str,
    },
    /// A value does not do.
    #[error("{}{source}", at(place))]
    Invalid {
        /// Where.
        place: String,
        /// What is wrong with it.
        source: BoxError,
    },
}

impl SettingsError {
    pub(in crate::stack) fn invalid(place: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Invalid { place: place.into(), source: source.into() }
    }
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!("{place}: ") }
}
