use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::duration;
use crate::layer::{
    audit::{AuditFile, JsonLines},
    telemetry::Metrics,
};

/// The settings of [telemetry](crate::layer::telemetry).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Telemetry {
    /// Whether it is there; it is if nothing is said.
    pub enabled: bool,
    /// Whether it makes spans.
    pub spans: bool,
    /// Whether the session is in spans.
    pub record_session: bool,
    /// Whether spans continue the traces that requests bring. Feature `opentelemetry`.
    pub remote_parents: bool,
    /// How many calls the latencies are of.
    pub window: usize,
    /// How many tools are counted apart.
    pub max_tools: usize,
}

impl Default for Telemetry {
    fn default() -> Self {
        let (window, max_tools) = (Metrics::WINDOW, Metrics::MAX_TOOLS);
        Self { enabled: true, spans: true, record_session: false, remote_parents: false, window, max_tools }
    }
}

/// The settings of the [audit](crate::layer::audit).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Audit {
    /// A file of JSON lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<AuditTo>,
    /// Whether records are `tracing` events too.
    pub tracing: bool,
    /// Whether nothing runs that cannot be recorded.
    pub required: bool,
    /// The environment variable with the key of the arguments' digests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_key_env: Option<String>,
    /// Whether arguments are recorded, as `redact` shows them.
    pub arguments: bool,
}

/// A file that records go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AuditTo {
    /// Where it is. Its directory has to be there.
    pub path: PathBuf,
    /// How many bytes it has at most before the next begins.
    #[serde(default = "max_bytes")]
    pub max_bytes: u64,
    /// How old it gets before the next begins.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Duration>,
    /// How many there are at most.
    #[serde(default = "max_files")]
    pub max_files: usize,
    /// Whether each record is on the disk before it counts as written.
    #[serde(default)]
    pub sync: bool,
    /// How many records wait at most.
    #[serde(default = "capacity")]
    pub capacity: usize,
}

fn max_bytes() -> u64 {
    AuditFile::MAX_BYTES
}

fn max_files() -> usize {
    AuditFile::MAX_FILES
}

fn capacity() -> usize {
    JsonLines::CAPACITY
}

/// The settings of the [redaction](crate::layer::redact) of results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Redact {
    /// Whether keys, tokens and passwords are hidden; they are if nothing is said. Feature `redact`.
    pub secrets: bool,
    /// Whether addresses, numbers of cards and the like are hidden. Feature `redact`.
    pub personal: bool,
    /// Keys of JSON whose values are hidden, beside the common ones.
    pub keys: Vec<String>,
    /// Whether images, audio and other content that is no text is hidden.
    pub binary: bool,
}

impl Default for Redact {
    fn default() -> Self {
        Self { secrets: true, personal: false, keys: Vec::new(), binary: false }
    }
}
