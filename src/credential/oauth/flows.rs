use std::{
    fmt,
    sync::{Arc, Mutex},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Client, client::Granted};
use crate::{
    credential::{
        CredentialError, Token, TokenRequest,
        keyed::{Keyed, lock},
        request::Key,
    },
    model::Secret,
};

/// How many sign-ins are kept in mind at most, begun or done.
const MOST: usize = 1024;

/// The sign-ins of one flow, each by scope and principal: what a person has begun, and refresh tokens of what was granted.
pub(super) struct Flows<T> {
    by_key: Keyed<Arc<Flow<T>>>,
}

struct Flow<T> {
    /// One call at a time goes on with a flow.
    turn: Arc<Semaphore>,
    refresh: Mutex<Option<Secret>>,
    begun: Mutex<Option<T>>,
}

/// What there is for a call.
pub(super) enum Entered<T> {
    /// A token, for the refresh token of an earlier sign-in.
    Refreshed(Token),
    /// Its turn to begin the flow, or to go on with it.
    Turn(Turn<T>),
}

pub(super) struct Turn<T> {
    flow: Arc<Flow<T>>,
    _permit: OwnedSemaphorePermit,
}

impl<T> Flows<T> {
    pub(super) fn new() -> Self {
        Self { by_key: Keyed::new(MOST) }
    }

    pub(super) async fn enter(&self, client: &Client, request: &TokenRequest) -> Result<Entered<T>, CredentialError> {
        let flow = self.by_key.get_or_insert(Key::of(request), || {
            Arc::new(Flow { turn: Arc::new(Semaphore::new(1)), refresh: Mutex::default(), begun: Mutex::new(None) })
        });
        let permit = Arc::clone(&flow.turn).acquire_owned().await.map_err(CredentialError::failed)?;
        let turn = Turn { flow, _permit: permit };
        let refresh = lock(&turn.flow.refresh).clone();
        if let Some(refresh) = refresh {
            match client.refresh(&refresh).await {
                Ok(granted) => return Ok(Entered::Refreshed(turn.granted(granted))),
                // The person has to sign in again.
                Err(error) if error.is_invalid_grant() => *lock(&turn.flow.refresh) = None,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Entered::Turn(turn))
    }
}

impl<T> Turn<T> {
    /// What was begun, to go on with.
    pub(super) fn hold(&self) -> Held<'_, T> {
        Held { begun: lock(&self.flow.begun).take(), flow: &self.flow }
    }

    /// Keeps the refresh token; a server that sends none lets the old one stand.
    pub(super) fn granted(&self, granted: Granted) -> Token {
        if granted.refresh.is_some() {
            *lock(&self.flow.refresh) = granted.refresh;
        }
        granted.token
    }
}

/// What was begun. What is left in it stays for the next call, also where this one is dropped.
pub(super) struct Held<'a, T> {
    pub(super) begun: Option<T>,
    flow: &'a Flow<T>,
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        // What panicked is over.
        if !std::thread::panicking() {
            *lock(&self.flow.begun) = self.begun.take();
        }
    }
}

impl<T> fmt::Debug for Flows<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flows").field("keys", &self.by_key.len()).finish()
    }
}
