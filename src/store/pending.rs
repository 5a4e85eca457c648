use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use futures_util::future::{BoxFuture, ready};
use serde::{Deserialize, Serialize};

use super::{Owner, ToolIdentity, now, size_of_json};
use crate::{
    error::BoxError,
    layer::permission::Approval,
    model::{Arguments, RawObject, Resume},
};

/// What a person was asked and has not answered yet. What the answer is about is what stands here, whatever the caller says later.
///
/// `Debug` shows no arguments and no id: whoever has the id can come back with an answer.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PendingApproval {
    /// Names it, unguessably.
    pub id: String,
    /// The layer that asks.
    pub layer: String,
    /// Who called.
    pub owner: Owner,
    /// Which tool.
    pub tool: ToolIdentity,
    /// With what.
    pub arguments: Arguments,
    /// What the person is told.
    pub message: String,
    /// When it is too late to answer.
    pub expires: SystemTime,
    /// The answer, where it came another way than with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Approval>,
    /// What the call brought back for somebody further in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    answers: RawObject,
}

impl PendingApproval {
    /// A question about a call.
    #[must_use]
    pub fn new(
        id: String,
        layer: String,
        owner: Owner,
        tool: ToolIdentity,
        arguments: Arguments,
        message: String,
        expires: SystemTime,
    ) -> Self {
        Self { id, layer, owner, tool, arguments, message, expires, answer: None, state: None, answers: RawObject::new() }
    }

    pub(crate) fn with_resume(mut self, resume: Option<&Resume>) -> Self {
        if let Some(resume) = resume {
            (self.state, self.answers) = (resume.state.clone(), resume.answers.clone());
        }
        self
    }

    pub(crate) fn into_resume(self) -> Option<Resume> {
        (self.state.is_some() || !self.answers.is_empty()).then(|| Resume::new(self.state, self.answers))
    }
}

impl fmt::Debug for PendingApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingApproval")
            .field("layer", &self.layer)
            .field("tool", &self.tool.name)
            .field("expires", &self.expires)
            .field("answered", &self.answer.is_some())
            .finish_non_exhaustive()
    }
}

/// Keeps [pending approvals](PendingApproval).
pub trait PendingStore: Send + Sync + 'static {
    /// Keeps a question.
    fn put(&self, pending: PendingApproval) -> BoxFuture<'_, Result<(), BoxError>>;

    /// The question of this id, unless it is too late for it.
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<PendingApproval>, BoxError>>;

    /// Takes the question of this id out. Of any number who try at once, one gets it.
    fn take<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<PendingApproval>, BoxError>>;

    /// Notes the answer to a question; `false` if there is none of this id, or it has an answer already.
    fn answer<'a>(&'a self, id: &'a str, answer: Approval) -> BoxFuture<'a, Result<bool, BoxError>>;

    /// All questions that wait for an answer.
    fn list(&self) -> BoxFuture<'_, Result<Vec<PendingApproval>, BoxError>>;
}

/// [Pending approvals](PendingApproval) in memory. Those that are over go when the next one comes.
pub struct MemoryPending {
    pending: Mutex<HashMap<String, Kept>>,
    max: usize,
    max_per_owner: usize,
    max_bytes: (usize, usize),
}

struct Kept {
    pending: PendingApproval,
    bytes: usize,
}

impl MemoryPending {
    /// How many questions are kept, and how many of one owner.
    pub const MAX: (usize, usize) = (10_000, 100);

    /// How many bytes one question may take, with its answer, and how many all of them, unless [`max_bytes`](Self::max_bytes) says otherwise.
    pub const MAX_BYTES: (usize, usize) = (256 * 1024, 64 * 1024 * 1024);

    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max(Self::MAX.0, Self::MAX.1)
    }

    /// An empty store that keeps at most so many questions. Of one owner's, the oldest makes place for the newest; a store that is full of
    /// others' takes no more until some are over.
    #[must_use]
    pub fn with_max(max: usize, max_per_owner: usize) -> Self {
        Self { pending: Mutex::default(), max, max_per_owner: max_per_owner.max(1), max_bytes: Self::MAX_BYTES }
    }

    /// Keeps no question that takes more than `one` bytes as JSON, and of all together no more than `all`.
    #[must_use]
    pub const fn max_bytes(mut self, one: usize, all: usize) -> Self {
        self.max_bytes = (one, all);
        self
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, pending: PendingApproval) -> Result<(), BoxError> {
        let (now, bytes, (one, most)) = (now(), size_of_json(&pending), self.max_bytes);
        if bytes > one {
            return Err(format!("a question takes more than {one} bytes, and is not kept").into());
        }
        let mut all = self.lock();
        all.retain(|id, kept| kept.pending.expires > now && *id != pending.id);
        let mut total: usize = all.values().map(|kept| kept.bytes).sum();
        let own = all.values().filter(|kept| kept.pending.owner == pending.owner);
        let mut own: Vec<_> = own.map(|kept| (kept.pending.expires, kept.pending.id.clone(), kept.bytes)).collect();
        own.sort();
        let others: usize = total - own.iter().map(|(.., bytes)| bytes).sum::<usize>();
        let (mut kept, mut oldest) = (own.len(), own.into_iter());
        if all.len() - kept >= self.max || others.saturating_add(bytes) > most {
            return Err(format!("{} calls wait for an approval already, and no more are kept", all.len()).into());
        }
        while (kept >= self.max_per_owner || all.len() >= self.max || total.saturating_add(bytes) > most)
            && let Some((_, id, bytes)) = oldest.next()
        {
            all.remove(&id);
            (kept, total) = (kept - 1, total - bytes);
        }
        all.insert(pending.id.clone(), Kept { pending, bytes });
        Ok(())
    }
}

impl Default for MemoryPending {
    fn default() -> Self {
        Self::new()
    }
}

impl PendingStore for MemoryPending {
    fn put(&self, pending: PendingApproval) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(ready(self.add(pending)))
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<PendingApproval>, BoxError>> {
        let now = now();
        let found = self.lock().get(id).map(|kept| &kept.pending).filter(|pending| pending.expires > now).cloned();
        Box::pin(ready(Ok(found)))
    }

    fn take<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<PendingApproval>, BoxError>> {
        let now = now();
        let taken = self.lock().remove(id).map(|kept| kept.pending).filter(|pending| pending.expires > now);
        Box::pin(ready(Ok(taken)))
    }

    fn answer<'a>(&'a self, id: &'a str, answer: Approval) -> BoxFuture<'a, Result<bool, BoxError>> {
        let now = now();
        let (bytes, (one, most)) = (size_of_json(&answer), self.max_bytes);
        let mut all = self.lock();
        let total: usize = all.values().map(|kept| kept.bytes).sum();
        let Some(kept) = all.get_mut(id).filter(|kept| kept.pending.expires > now && kept.pending.answer.is_none()) else {
            return Box::pin(ready(Ok(false)));
        };
        if bytes > one.saturating_sub(kept.bytes) || bytes > most.saturating_sub(total) {
            return Box::pin(ready(Err("the answer takes more bytes than are kept of a question".into())));
        }
        kept.bytes += bytes;
        kept.pending.answer = Some(answer);
        Box::pin(ready(Ok(true)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<PendingApproval>, BoxError>> {
        let now = now();
        let mut all: Vec<_> = self
            .lock()
            .values()
            .map(|kept| &kept.pending)
            .filter(|pending| pending.expires > now && pending.answer.is_none())
            .cloned()
            .collect();
        all.sort_by_key(|pending| pending.expires);
        Box::pin(ready(Ok(all)))
    }
}

impl fmt::Debug for MemoryPending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPending")
            .field("max", &self.max)
            .field("max_per_owner", &self.max_per_owner)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}
