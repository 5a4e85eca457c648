use std::{
    any::Any,
    collections::HashMap,
    fmt::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use smol_str::SmolStr;
use tokio::{sync::Notify, time::Instant};

use super::{Hold, HoldError, SessionGuard, SessionOwner, SessionStore};
use crate::error::BoxError;

/// How many sessions there may be, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    max: usize,
    per_owner: usize,
    idle: Option<Duration>,
    max_age: Option<Duration>,
}

impl SessionLimits {
    /// At most `max` sessions, closed ones included, which never expire.
    ///
    /// # Panics
    ///
    /// If `max` is zero.
    #[must_use]
    #[track_caller]
    pub const fn new(max: usize) -> Self {
        assert!(max > 0, "a store of no sessions");
        Self { max, per_owner: max, idle: None, max_age: None }
    }

    /// At most this many of one owner, so that one cannot crowd out the others.
    #[must_use]
    pub const fn per_owner(mut self, max: usize) -> Self {
        self.per_owner = max;
        self
    }

    /// A session that nobody holds for this long is gone.
    #[must_use]
    pub const fn idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// A session that is this old is gone, as soon as nobody holds it.
    #[must_use]
    pub const fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = Some(max_age);
        self
    }
}

/// Sessions in the memory of this process. Clones share them.
///
/// # Closing
///
/// A call that [requires an open session](crate::layer::SessionLayer::require_open) keeps it open until the call is over.
/// [`close`](Self::close) lets no new call have it from the first moment and waits for those that do; [`try_close`](Self::try_close)
/// refuses while there are any. Calls that hold the session without requiring that it is open keep neither from closing.
///
/// A tool that closes its own session therefore stands behind a layer that does not require it to be open; it would wait for itself
/// otherwise.
///
/// # Expiry
///
/// A session that is held does not expire. One that did is gone, as if it had never been. When there is no room left, closed sessions
/// that nobody holds make room, the oldest first; they are then not found where they were closed before.
#[derive(Clone)]
pub struct MemorySessions {
    shared: Arc<Shared>,
}

struct Shared {
    limits: SessionLimits,
    sessions: Mutex<HashMap<SmolStr, Entry>>,
}

struct Entry {
    owner: SessionOwner,
    value: Arc<dyn Any + Send + Sync>,
    opened: Instant,
    used: Instant,
    closed: bool,
    holds: usize,
    /// Those of the holds that keep it open.
    open_holds: usize,
    /// Told when the last of them is gone.
    drained: Arc<Notify>,
}

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no room for another one, or for another one of this owner.
    #[error("there are too many sessions")]
    Full,
    /// The id is empty or longer than 128 bytes.
    #[error("the id of a session has 1 to 128 bytes")]
    Id,
    /// The system gives no random numbers.
    #[error("no id can be made")]
    Random(#[source] BoxError),
    /// There is a session of this id.
    #[error("a session of this id is there already")]
    Taken,
}

/// Why a session was not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// This many calls need it open.
    #[error("{0} calls need the session open")]
    InUse(usize),
    /// There is none of this id.
    #[error("no such session")]
    NotFound,
}

/// No longer than this is an id, and a text that is asked for one.
const LONGEST_ID: usize = 128;

impl MemorySessions {
    /// No sessions yet.
    #[must_use]
    pub fn new(limits: SessionLimits) -> Self {
        Self { shared: Arc::new(Shared { limits, sessions: Mutex::default() }) }
    }

    /// Opens a session under an id that nobody can guess.
    ///
    /// # Errors
    ///
    /// If there is no room.
    pub fn open(&self, owner: SessionOwner, value: impl Any + Send + Sync) -> Result<SmolStr, OpenError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| OpenError::Random(error.to_string().into()))?;
        let mut id = String::with_capacity(32);
        for byte in random {
            let _ = write!(id, "{byte:02x}");
        }
        self.open_as(&id, owner, value)?;
        Ok(id.into())
    }

    /// Opens a session under this id.
    ///
    /// # Errors
    ///
    /// If there is no room, the id is taken, or it is none.
    pub fn open_as(&self, id: &str, owner: SessionOwner, value: impl Any + Send + Sync) -> Result<(), OpenError> {
        if id.is_empty() || id.len() > LONGEST_ID {
            return Err(OpenError::Id);
        }
        let now = Instant::now();
        let limits = self.shared.limits;
        let mut sessions = self.shared.lock();
        if sessions.present(&limits, id).is_some() {
            return Err(OpenError::Taken);
        }
        sessions.make_room(&limits, &owner, now)?;
        let entry = Entry {
            owner,
            value: Arc::new(value),
            opened: now,
            used: now,
            closed: false,
            holds: 0,
            open_holds: 0,
            drained: Arc::new(Notify::new()),
        };
        sessions.all.insert(SmolStr::new(id), entry);
        Ok(())
    }

    /// Closes a session to every new call and waits until none needs it open; says whether there is such a session.
    ///
    /// If the future is dropped the session stays closed to new calls.
    pub async fn close(&self, id: &str) -> bool {
        let drained = {
            let mut sessions = self.shared.lock();
            let Some(entry) = sessions.present(&self.shared.limits, id) else { return false };
            entry.closed = true;
            Arc::clone(&entry.drained)
        };
        loop {
            // Made before the look: a call that ends in between wakes it.
            let ended = drained.notified();
            let needed = self.shared.lock().all.get(id).is_some_and(|entry| Arc::ptr_eq(&entry.drained, &drained) && entry.open_holds > 0);
            if !needed {
                return true;
            }
            ended.await;
        }
    }

    /// Closes a session unless a call needs it open.
    ///
    /// # Errors
    ///
    /// If one does, or there is no such session.
    pub fn try_close(&self, id: &str) -> Result<(), CloseError> {
        let mut sessions = self.shared.lock();
        let entry = sessions.present(&self.shared.limits, id).ok_or(CloseError::NotFound)?;
        if entry.open_holds > 0 {
            return Err(CloseError::InUse(entry.open_holds));
        }
        entry.closed = true;
        Ok(())
    }

    /// Whether there is a session of this id, and if so whether it is open.
    #[must_use]
    pub fn is_open(&self, id: &str) -> Option<bool> {
        self.shared.lock().present(&self.shared.limits, id).map(|entry| !entry.closed)
    }

    /// How many sessions there are, closed ones and those that expired unnoticed included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.lock().all.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The sessions, locked. What is taken out is dropped once they are not any more: what an application keeps in a session may come back
/// here as it is dropped.
struct Locked<'a> {
    // The first field is dropped first.
    all: MutexGuard<'a, HashMap<SmolStr, Entry>>,
    gone: Vec<Entry>,
}

impl Locked<'_> {
    fn remove(&mut self, id: &str) {
        self.gone.extend(self.all.remove(id));
    }

    /// The session, unless it expired.
    fn present(&mut self, limits: &SessionLimits, id: &str) -> Option<&mut Entry> {
        if self.all.get(id)?.is_over(limits, Instant::now()) {
            self.remove(id);
        }
        self.all.get_mut(id)
    }

    fn make_room(&mut self, limits: &SessionLimits, owner: &SessionOwner, now: Instant) -> Result<(), OpenError> {
        let own = |entry: &Entry| entry.owner == *owner;
        let is_full = |sessions: &Self| sessions.all.len() >= limits.max;
        let is_crowded =
            |sessions: &Self| limits.per_owner < limits.max && sessions.all.values().filter(|entry| own(entry)).count() >= limits.per_owner;
        if !is_full(self) && !is_crowded(self) {
            return Ok(());
        }
        self.gone.extend(self.all.extract_if(|_, entry| entry.is_over(limits, now)).map(|(_, entry)| entry));
        for crowded in [false, true] {
            while if crowded { is_crowded(self) } else { is_full(self) } {
                let closed = self.all.iter().filter(|(_, entry)| entry.closed && entry.holds == 0 && (!crowded || own(entry)));
                let oldest = closed.min_by_key(|(_, entry)| entry.used).map(|(id, _)| id.clone());
                self.remove(&oldest.ok_or(OpenError::Full)?);
            }
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> Locked<'_> {
        Locked { all: self.sessions.lock().unwrap_or_else(PoisonError::into_inner), gone: Vec::new() }
    }

    fn release(&self, id: &str, drained: &Arc<Notify>, open: bool) {
        let mut sessions = self.lock();
        // Another session may have the id by now.
        let Some(entry) = sessions.all.get_mut(id).filter(|entry| Arc::ptr_eq(&entry.drained, drained)) else { return };
        entry.used = Instant::now();
        entry.holds -= 1;
        if open {
            entry.open_holds -= 1;
            if entry.open_holds == 0 {
                entry.drained.notify_waiters();
            }
        }
    }
}

impl Entry {
    fn is_over(&self, limits: &SessionLimits, now: Instant) -> bool {
        let idle = limits.idle.is_some_and(|idle| now.saturating_duration_since(self.used) >= idle);
        let old = limits.max_age.is_some_and(|age| now.saturating_duration_since(self.opened) >= age);
        self.holds == 0 && (idle || old)
    }
}

impl SessionStore for MemorySessions {
    fn hold<'a>(&'a self, id: &'a str, hold: Hold<'a>) -> BoxFuture<'a, Result<SessionGuard, HoldError>> {
        Box::pin(std::future::ready(self.held(id, hold)))
    }
}

impl MemorySessions {
    fn held(&self, id: &str, hold: Hold<'_>) -> Result<SessionGuard, HoldError> {
        let mut sessions = self.shared.lock();
        let limits = &self.shared.limits;
        let entry = sessions.present(limits, id).filter(|entry| entry.owner.admits(hold.principal)).ok_or(HoldError::NotFound)?;
        if hold.open && entry.closed {
            return Err(HoldError::Closed);
        }
        entry.holds += 1;
        entry.open_holds += usize::from(hold.open);
        let (shared, drained, name) = (Arc::clone(&self.shared), Arc::clone(&entry.drained), SmolStr::new(id));
        Ok(SessionGuard::new(id, Some(Arc::clone(&entry.value)), move || shared.release(&name, &drained, hold.open)))
    }
}

impl fmt::Debug for MemorySessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySessions").field("limits", &self.shared.limits).field("len", &self.len()).finish()
    }
}
