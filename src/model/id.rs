use std::{
    cell::Cell,
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Names one call among those in flight: what a provider or a client calls its id, or one of our own.
///
/// JSON-RPC and the providers use texts or integers; both are kept exactly as they came.
///
/// ```
/// use toolstack::model::CallId;
///
/// assert_eq!(CallId::from("call_7"), CallId::from("call_7".to_owned()));
/// assert_ne!(CallId::from(7), CallId::from("7"));
/// assert_ne!(CallId::next(), CallId::next());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(Repr);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged, expecting = "an id is a text or an integer of 64 bits")]
enum Repr {
    Number(i64),
    Text(SmolStr),
    /// Ours. Written as a text, so that it cannot be taken for a client's number.
    #[serde(skip_deserializing, serialize_with = "serialize_own")]
    Own(u64),
}

fn serialize_own<S: serde::Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Own(*id))
}

struct Own(u64);

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local-{}", self.0)
    }
}

impl CallId {
    /// An id that no other call of this process has.
    ///
    /// Threads draw from blocks of their own, so that making one touches no shared memory; ids of one thread ascend, ids of
    /// different threads do not compare by age.
    #[must_use]
    #[inline]
    pub fn next() -> Self {
        const BLOCK: u64 = 1024;
        static BLOCKS: AtomicU64 = AtomicU64::new(0);
        thread_local!(static NEXT: Cell<u64> = const { Cell::new(0) });

        NEXT.with(|next| {
            let mut id = next.get();
            if id % BLOCK == 0 {
                id = BLOCKS.fetch_add(1, Ordering::Relaxed) * BLOCK + 1;
            }
            next.set(id + 1);
            Self(Repr::Own(id))
        })
    }

    /// This id, with a long text cut.
    pub(crate) fn cut(&self, cut: impl FnOnce(&str) -> SmolStr) -> Self {
        match &self.0 {
            Repr::Text(text) => Self(Repr::Text(cut(text))),
            _ => self.clone(),
        }
    }

    /// Whether this is the empty text, which some providers send for every call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.is_empty())
    }
}

impl Default for CallId {
    /// The same as [`CallId::next`].
    fn default() -> Self {
        Self::next()
    }
}

impl From<i64> for CallId {
    fn from(id: i64) -> Self {
        Self(Repr::Number(id))
    }
}

impl From<&str> for CallId {
    fn from(id: &str) -> Self {
        Self(Repr::Text(SmolStr::new(id)))
    }
}

impl From<String> for CallId {
    fn from(id: String) -> Self {
        Self(Repr::Text(SmolStr::from(id)))
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(id) => fmt::Debug::fmt(id, f),
            Repr::Text(id) => fmt::Debug::fmt(id, f),
            Repr::Own(id) => fmt::Display::fmt(&Own(*id), f),
        }
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(id) => fmt::Display::fmt(id, f),
            Repr::Text(id) => fmt::Display::fmt(id, f),
            Repr::Own(id) => fmt::Display::fmt(&Own(*id), f),
        }
    }
}
