use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// How far a tool has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProgressUpdate {
    /// How much is done, in any unit. It should grow.
    pub progress: f64,
    /// How much there is to do in all, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl ProgressUpdate {
    /// So much is done.
    #[must_use]
    pub const fn new(progress: f64) -> Self {
        Self { progress, total: None, message: None }
    }

    /// Sets how much there is to do in all.
    #[must_use]
    pub const fn total(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets what is being done.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// Where a tool reports how far it has come. Reporting never waits and never fails; with nobody listening it does nothing.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use toolstack::model::{Progress, ProgressUpdate};
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let progress = Progress::new({
///     let seen = Arc::clone(&seen);
///     move |update| seen.lock().unwrap().push(update.progress)
/// });
/// progress.report(ProgressUpdate::new(1.0).total(2.0));
/// assert_eq!(*seen.lock().unwrap(), [1.0]);
/// ```
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Listen>>);

/// Hears of progress.
pub(crate) trait Listen: Send + Sync {
    /// The work that is listened to has come so far.
    fn heard(&self, update: ProgressUpdate);

    /// The work goes on, as something that it waits for shows.
    fn alive(&self) {}
}

impl<F: Fn(ProgressUpdate) + Send + Sync> Listen for F {
    fn heard(&self, update: ProgressUpdate) {
        self(update);
    }
}

/// Passes on that work goes on, and not how far it has come: the numbers of a call within a call mean nothing to whoever made the outer one.
struct Signs(Arc<dyn Listen>);

impl Listen for Signs {
    fn heard(&self, _: ProgressUpdate) {
        self.0.alive();
    }

    fn alive(&self) {
        self.0.alive();
    }
}

impl Progress {
    /// Calls `listener` with each update. It must not block.
    #[must_use]
    pub fn new(listener: impl Fn(ProgressUpdate) + Send + Sync + 'static) -> Self {
        Self::listener(listener)
    }

    pub(crate) fn listener(listener: impl Listen + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// For a call within the call that this belongs to.
    pub(crate) fn signs_of_life(&self) -> Self {
        Self(self.0.as_ref().map(|listener| Arc::new(Signs(Arc::clone(listener))) as Arc<dyn Listen>))
    }

    /// Tells that the work goes on.
    pub(crate) fn alive(&self) {
        if let Some(listener) = &self.0 {
            listener.alive();
        }
    }

    /// Whether anybody listens.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.0.is_some()
    }

    /// Reports how far the work has come.
    pub fn report(&self, update: ProgressUpdate) {
        if let Some(listener) = &self.0 {
            listener.heard(update);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("listening", &self.is_listening()).finish()
    }
}
