use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::{
    CredentialError, CredentialProvider, Token, TokenRequest,
    keyed::{Keyed, lock},
    request::Key,
};

/// Keeps credentials until shortly before they end, and fetches each only once however many calls want it.
///
/// What is kept is kept apart by scope and principal, in memory alone. Calls that want the same credential wait for the one that fetches
/// it, and share its answer, an error too. If that one is dropped, the next of them fetches. An error is kept for nobody who comes later.
///
/// ```
/// use toolstack::credential::{Cached, StaticCredentials};
///
/// let credentials = Cached::new(StaticCredentials::environment()).max_keys(100);
/// # let _ = credentials;
/// ```
pub struct Cached<P> {
    provider: P,
    entries: Keyed<Arc<Entry>>,
    leeway: Duration,
}

struct Entry {
    /// One at a time fetches.
    turn: Semaphore,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    /// How many fetches have ended.
    fetched: u64,
    /// How the last one ended, for those who waited for it.
    last: Option<Result<Token, CredentialError>>,
}

impl<P: CredentialProvider> Cached<P> {
    /// A cache of up to 1,024 credentials, none of which is given out in its last 60 seconds.
    pub fn new(provider: P) -> Self {
        Self { provider, entries: Keyed::new(1024), leeway: Duration::from_secs(60) }
    }

    /// Sets how long before its end a credential is not given out any more.
    #[must_use]
    pub const fn leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// Sets how many credentials are kept at most; one at least. The one that was used longest ago goes first. Forgets what is kept.
    #[must_use]
    pub fn max_keys(mut self, most: usize) -> Self {
        self.entries = Keyed::new(most);
        self
    }

    async fn fetch(&self, request: &TokenRequest) -> Result<Token, CredentialError> {
        let entry = self.entries.get_or_insert(Key::of(request), || Arc::new(Entry { turn: Semaphore::new(1), state: Mutex::default() }));
        let before = {
            let state = lock(&entry.state);
            if let Some(token) = self.kept(&state) {
                return Ok(token);
            }
            state.fetched
        };
        // Given back when this future is dropped, and then it is the next one's turn.
        let _turn = entry.turn.acquire().await.map_err(CredentialError::failed)?;
        {
            let state = lock(&entry.state);
            if let Some(token) = self.kept(&state) {
                return Ok(token);
            }
            if state.fetched != before
                && let Some(last) = &state.last
            {
                return last.clone();
            }
        }
        let fetched = self.provider.token(request).await;
        let mut state = lock(&entry.state);
        state.fetched += 1;
        state.token = fetched.as_ref().ok().filter(|token| token.lasts(self.leeway)).cloned();
        state.last = Some(fetched.clone());
        drop(state);
        fetched
    }

    fn kept(&self, state: &State) -> Option<Token> {
        state.token.as_ref().filter(|token| token.lasts(self.leeway)).cloned()
    }
}

impl<P: CredentialProvider> CredentialProvider for Cached<P> {
    fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        Box::pin(self.fetch(request))
    }

    fn invalidate(&self, request: &TokenRequest, rejected: Option<&Token>) {
        if let Some(entry) = self.entries.get(&Key::of(request)) {
            let mut state = lock(&entry.state);
            let is_it = |token: &Token| rejected.is_none_or(|rejected| rejected.is_same(token));
            if state.token.as_ref().is_some_and(is_it) {
                state.token = None;
            }
            if state.last.as_ref().is_some_and(|last| last.as_ref().is_ok_and(is_it)) {
                state.last = None;
            }
        }
        self.provider.invalidate(request, rejected);
    }

    fn name(&self) -> &str {
        self.provider.name()
    }
}

impl<P: fmt::Debug> fmt::Debug for Cached<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("provider", &self.provider).field("keys", &self.entries.len()).field("leeway", &self.leeway).finish()
    }
}
