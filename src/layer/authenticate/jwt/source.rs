use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tokio::time::Instant;

use super::KeySet;
use crate::error::BoxError;

/// Where the JWKS document of an issuer comes from. Implemented for closures; this crate brings no HTTP client.
///
/// Fetch over TLS from an address that stands in the settings, and bound what is read: an address from a token is never to be used.
pub trait KeySource: Send + Sync + 'static {
    /// Fetches the document.
    fn fetch(&self) -> BoxFuture<'_, Result<String, BoxError>>;
}

impl<F, Fut> KeySource for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, BoxError>> + Send + 'static,
{
    fn fetch(&self) -> BoxFuture<'_, Result<String, BoxError>> {
        Box::pin(self())
    }
}

/// Keys that are fetched, kept, and fetched again now and then.
pub(super) struct Fetched {
    source: Arc<dyn KeySource>,
    times: Times,
    kept: ArcSwapOption<Kept>,
    flight: Mutex<Flight>,
}

/// When keys are fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// How old keys may be before they are fetched again.
    pub(super) fresh: Duration,
    /// How old they may be where fetching fails.
    pub(super) usable: Duration,
    /// The least time between two fetches.
    pub(super) interval: Duration,
    /// How long one may take.
    pub(super) timeout: Duration,
}

impl Times {
    pub(super) const DEFAULT: Self = Self {
        fresh: Duration::from_secs(15 * 60),
        usable: Duration::from_secs(24 * 60 * 60),
        interval: Duration::from_secs(30),
        timeout: Duration::from_secs(10),
    };
}

struct Kept {
    keys: Arc<KeySet>,
    since: Instant,
}

/// The fetch that is on its way, and when the last one began.
#[derive(Default)]
struct Flight {
    began: Option<Instant>,
    fetch: Option<Fetch>,
}

/// A fetch that many wait for. It goes on as long as one of them does, and ends with keys or with a reason.
type Fetch = Shared<BoxFuture<'static, Result<Arc<KeySet>, Arc<str>>>>;

impl Fetched {
    pub(super) fn new(source: Arc<dyn KeySource>, times: Times) -> Self {
        Self { source, times, kept: ArcSwapOption::empty(), flight: Mutex::default() }
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys, and whether they are as new as they should be. `None` if there are none, or none that may still be used.
    pub(super) fn kept(&self) -> Option<(Arc<KeySet>, bool)> {
        let kept = self.kept.load();
        let kept = kept.as_deref()?;
        let age = kept.since.elapsed();
        (age < self.times.usable).then(|| (Arc::clone(&kept.keys), age < self.times.fresh))
    }

    /// The fetch that is on its way, or a new one; `None` so soon after the last one that there is to be none.
    fn join(&self) -> Option<Fetch> {
        let mut flight = self.flight();
        let since = flight.began.map(|began| began.elapsed());
        if let Some(fetch) = flight.fetch.as_ref().filter(|fetch| fetch.peek().is_none()) {
            // One that everybody gave up on stands still, and has had its time.
            if since.is_some_and(|since| since < self.times.timeout) {
                return Some(fetch.clone());
            }
        }
        if since.is_some_and(|since| since < self.times.interval) {
            return None;
        }
        flight.began = Some(Instant::now());
        let (source, timeout) = (Arc::clone(&self.source), self.times.timeout);
        let fetch = async move {
            let document = tokio::time::timeout(timeout, source.fetch()).await.map_err(|_| Arc::from("it took too long"))?;
            let document = document.map_err(|error| Arc::from(error.to_string()))?;
            KeySet::from_json(&document).map(Arc::new).map_err(|error| Arc::from(error.to_string()))
        };
        // A fetch that panicked would panic for everybody who comes after.
        let fetch = AssertUnwindSafe(fetch).catch_unwind().map(|fetched| fetched.unwrap_or_else(|_| Err(Arc::from("it panicked"))));
        let fetch = fetch.boxed().shared();
        flight.fetch = Some(fetch.clone());
        Some(fetch)
    }

    /// Fetches the keys, unless somebody did a moment ago. An error is for the operator.
    pub(super) async fn refresh(&self) -> Result<(), BoxError> {
        let Some(fetch) = self.join() else { return Ok(()) };
        match fetch.clone().await {
            Ok(keys) => {
                // Only once for all who waited.
                let mut flight = self.flight();
                if flight.fetch.as_ref().is_some_and(|current| current.ptr_eq(&fetch)) {
                    flight.fetch = None;
                    self.kept.store(Some(Arc::new(Kept { keys, since: Instant::now() })));
                }
                Ok(())
            }
            Err(error) => Err(format!("the keys could not be fetched: {error}").into()),
        }
    }
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched").field("times", &self.times).field("kept", &self.kept().map(|(keys, _)| keys)).finish_non_exhaustive()
    }
}
