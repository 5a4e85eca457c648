use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use super::Verified;
use crate::{layer::wall_clock::WallClock, model::Principal};

/// Tokens that were verified a moment ago, by their digests. Only tokens that were good are kept, so nobody fills it who has none.
pub(super) struct Remembered {
    most: usize,
    at_most: Duration,
    clock: WallClock,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    tokens: HashMap<[u8; 32], Entry, foldhash::fast::RandomState>,
    /// Oldest first.
    order: VecDeque<[u8; 32]>,
}

struct Entry {
    principal: Arc<Principal>,
    /// As long as this layer keeps one.
    until: Instant,
    /// As long as the token itself is good.
    expires: Option<SystemTime>,
}

impl Remembered {
    pub(super) fn new(most: usize, at_most: Duration, clock: WallClock) -> Self {
        Self { most, at_most, clock, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, digest: &[u8; 32]) -> Option<Arc<Principal>> {
        let now = self.clock.now();
        let kept = self.kept();
        let entry = kept.tokens.get(digest)?;
        let good = entry.until > Instant::now() && entry.expires.is_none_or(|expires| now < expires);
        good.then(|| Arc::clone(&entry.principal))
    }

    pub(super) fn put(&self, digest: [u8; 32], verified: &Verified) {
        let Some(until) = Instant::now().checked_add(self.at_most) else { return };
        let entry = Entry { principal: Arc::clone(&verified.principal), until, expires: verified.expires };
        let mut kept = self.kept();
        if kept.tokens.insert(digest, entry).is_none() {
            kept.order.push_back(digest);
        }
        while kept.order.len() > self.most
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.tokens.remove(&oldest);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.kept().tokens.len()
    }
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remembered")
            .field("tokens", &self.len())
            .field("most", &self.most)
            .field("at_most", &self.at_most)
            .finish_non_exhaustive()
    }
}
