use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tower_layer::Layer;

use super::{AuditPolicy, AuditSink};
use crate::{
    layer::{
        around::{Policed, PolicyLayer},
        redact::Redactor,
    },
    model::Secret,
};

/// Keeps a record of each operation; see the [module](super).
#[derive(Clone)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct AuditLayer {
    pub(super) settings: Settings,
}

/// A service whose operations are recorded.
pub type Audit<S> = Policed<S, AuditPolicy>;

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) sinks: Vec<Arc<dyn AuditSink>>,
    pub(super) required: bool,
    pub(super) key: Option<Secret>,
    pub(super) redactor: Option<Redactor>,
    pub(super) panics: Arc<AtomicU64>,
}

impl AuditLayer {
    /// Records go to this sink.
    pub fn new(sink: impl AuditSink) -> Self {
        Self::without_sinks().and(sink)
    }

    /// Records go nowhere, until a sink is added.
    pub(crate) fn without_sinks() -> Self {
        Self { settings: Settings { sinks: Vec::new(), required: false, key: None, redactor: None, panics: Arc::default() } }
    }

    pub(crate) fn has_sinks(&self) -> bool {
        !self.settings.sinks.is_empty()
    }

    /// Records go to this sink too.
    pub fn and(mut self, sink: impl AuditSink) -> Self {
        self.settings.sinks.push(Arc::new(sink));
        self
    }

    /// Runs nothing that could not be recorded: a place is kept in each sink before a request goes on, and where one has none, the request
    /// is refused. [`JsonLines`](super::JsonLines) have none while writing fails. What was let in before it was known to fail may be
    /// missing, as the lines say once there are any again.
    pub const fn required(mut self) -> Self {
        self.settings.required = true;
        self
    }

    /// Makes the digests of arguments with this key (HMAC-SHA-256), so that nobody without it can check a guess. 32 random bytes are a good
    /// one; the same key makes the same digests.
    pub fn digest_key(mut self, key: Secret) -> Self {
        self.settings.key = Some(key);
        self
    }

    /// Keeps the arguments too, as this redactor shows them. Those of more than [`MAX_ARGUMENTS`](Self::MAX_ARGUMENTS) bytes are left out.
    pub fn arguments(mut self, redactor: Redactor) -> Self {
        self.settings.redactor = Some(redactor);
        self
    }

    /// The policy, for a stack whose type does not depend on whether it is there.
    pub(crate) fn into_policy(self) -> AuditPolicy {
        AuditPolicy::new(self.settings)
    }

    /// The longest arguments that a record keeps, in bytes.
    pub const MAX_ARGUMENTS: usize = 64 * 1024;

    /// How often a sink panicked over a record.
    #[must_use]
    pub fn sink_panics(&self) -> u64 {
        self.settings.panics.load(Ordering::Relaxed)
    }
}

impl<S> Layer<S> for AuditLayer {
    type Service = Audit<S>;

    fn layer(&self, inner: S) -> Audit<S> {
        PolicyLayer::new(self.clone().into_policy()).layer(inner)
    }
}

impl fmt::Debug for AuditLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuditLayer").field(&self.settings).finish()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("sinks", &self.sinks.iter().map(|sink| sink.name()).collect::<Vec<_>>())
            .field("required", &self.required)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
