use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::request::Key;

/// So many keys at most; the one that was used longest ago goes first.
pub(super) struct Keyed<V> {
    entries: Mutex<Entries<V>>,
    most: usize,
}

struct Entries<V> {
    by_key: HashMap<Key, (u64, V)>,
    /// Counts uses, as a clock would.
    uses: u64,
}

impl<V> Keyed<V> {
    pub(super) fn new(most: usize) -> Self {
        Self { entries: Mutex::new(Entries { by_key: HashMap::new(), uses: 0 }), most: most.max(1) }
    }

    /// What is kept under the key, made first if there is nothing.
    pub(super) fn get_or_insert(&self, key: Key, make: impl FnOnce() -> V) -> V
    where
        V: Clone,
    {
        let mut entries = lock(&self.entries);
        entries.uses += 1;
        let uses = entries.uses;
        if let Some((used, value)) = entries.by_key.get_mut(&key) {
            *used = uses;
            return value.clone();
        }
        while entries.by_key.len() >= self.most {
            let Some(oldest) = entries.by_key.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone()) else { break };
            entries.by_key.remove(&oldest);
        }
        let value = make();
        entries.by_key.insert(key, (uses, value.clone()));
        value
    }

    pub(super) fn get(&self, key: &Key) -> Option<V>
    where
        V: Clone,
    {
        lock(&self.entries).by_key.get(key).map(|(_, value)| value.clone())
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.entries).by_key.len()
    }
}

/// A lock that a panic elsewhere does not spoil: nothing is left half done under it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::TokenRequest;

    #[test]
    fn the_key_that_was_used_longest_ago_goes_first() {
        let keyed = Keyed::new(2);
        let key = |scope: &str| Key::of(&TokenRequest::new(scope));
        for scope in ["a", "b", "a", "c"] {
            keyed.get_or_insert(key(scope), || scope.to_owned());
        }
        assert_eq!((keyed.get(&key("a")).as_deref(), keyed.get(&key("b")), keyed.len()), (Some("a"), None, 2));
    }
}
