//! The settings of the [recommended stack](super::recommended()).
//!
//! One value that is read from TOML, JSON or whatever else serde reads. A key that is not known is an error that names its place. What is
//! not named is left out, but for layers that are always there: those that catch panics and errors, telemetry, permission, which denies what no
//! rule allows and nobody can be asked about, a timeout of a minute, and challenge, which tells the model where to sign in.
//!
//! No secret is in it: where one is needed, the settings name the environment variable that holds it.

mod deciding;
mod duration;
mod error;
mod identity;
mod sight;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

pub use self::{
    deciding::{AskBy, Fields, Hide, HookEvent, HookProgram, Permission, PinTo, Results, Session, Timeout, Validate},
    error::SettingsError,
    identity::{Authenticate, Challenge, Jwt, Remember, Token},
    sight::{Audit, AuditTo, Redact, Telemetry},
};
use crate::layer::{scopes::ScopeRules, step_up::StepUpRule};

/// What stands in a [recommended stack](super::recommended()), outermost first.
///
/// ```
/// use toolstack::stack::Settings;
///
/// let settings = Settings::from_json(r#"{ "permission": { "unmatched": "deny" }, "timeout": { "total": "30s" } }"#)?;
/// let error = Settings::from_json(r#"{ "timeout": { "totl": "30s" } }"#).unwrap_err();
/// assert!(error.to_string().starts_with("timeout.totl: unknown field"), "{error}");
/// # Ok::<(), toolstack::stack::SettingsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// How deep calls within calls may go: [`Stack::MAX_DEPTH`](super::Stack::MAX_DEPTH) if nothing is said, and
    /// [`DEEPEST`](Self::DEEPEST) at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u16>,
    /// Spans and counts.
    pub telemetry: Telemetry,
    /// A record of each operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// What is hidden in results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redact: Option<Redact>,
    /// Who asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authenticate: Option<Authenticate>,
    /// Which tools are hidden from whom.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub visibility: Vec<Hide>,
    /// Which scopes callers need for which tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<ScopeRules>,
    /// Hooks that are programs, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookProgram>,
    /// Arguments that the model may not choose, and what they are set to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pin: BTreeMap<String, PinTo>,
    /// The sessions that calls name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// Arguments that have to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_fields: Option<Fields>,
    /// Arguments and results against the schemas of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validate: Option<Validate>,
    /// Which calls need a better or a fresher sign-in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub step_up: Vec<StepUpRule>,
    /// What runs, and who is asked.
    pub permission: Permission,
    /// How long it may take.
    pub timeout: Timeout,
    /// What becomes of tools that need a sign-in elsewhere.
    pub challenge: Challenge,
}

impl Settings {
    /// How deep calls within calls may go at most. Each level takes its part of the thread's stack, with every layer in it; a tool that
    /// calls itself must come to this end before it comes to that one.
    pub const DEEPEST: u16 = 16;

    /// Reads settings from JSON.
    ///
    /// # Errors
    ///
    /// If they cannot be read, a key is not known, or a value is none that there can be; the error names the place.
    pub fn from_json(json: &str) -> Result<Self, SettingsError> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let settings = Self::read(&mut deserializer)?;
        deserializer.end().map_err(|error| SettingsError::Unreadable { place: String::new(), why: error.to_string() })?;
        Ok(settings)
    }

    /// Reads settings in any format: from TOML by `Settings::read(toml::Deserializer::parse(text)?)`.
    ///
    /// # Errors
    ///
    /// As [`from_json`](Self::from_json).
    pub fn read<'de>(deserializer: impl Deserializer<'de>) -> Result<Self, SettingsError> {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            let place = error.path().to_string();
            SettingsError::Unreadable { place: if place == "." { String::new() } else { place }, why: error.inner().to_string() }
        })
    }
}
