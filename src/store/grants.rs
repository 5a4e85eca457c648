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
    layer::permission::{ArgumentRule, Truth},
    model::{Arguments, canonical::sha256},
};

/// What a person decided for more than one call: allowed, or denied, for one principal and one tool as it was defined then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Grant {
    /// Names it, for [`revoke`](GrantStore::revoke).
    pub id: String,
    /// What was decided.
    pub effect: GrantEffect,
    /// Which calls it is about.
    pub scope: GrantScope,
    /// For whom.
    pub owner: Owner,
    /// Of which tool.
    pub tool: ToolIdentity,
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ends.
    pub expires: SystemTime,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GrantEffect {
    /// The calls are allowed.
    Allow,
    /// The calls are denied.
    Deny,
}

/// Which calls of the tool a grant is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum GrantScope {
    /// Calls with exactly these arguments, by the digest of their canonical text. No arguments, `{}`, are arguments too, and not "any".
    Call(String),
    /// Calls for whose arguments all of these hold. At least one has to be given.
    Arguments(Vec<ArgumentRule>),
    /// All calls.
    Tool,
}

impl GrantScope {
    /// Calls with exactly these arguments; `None` for arguments that cannot be read.
    #[must_use]
    pub fn call(arguments: &Arguments) -> Option<Self> {
        arguments.canonical().ok().map(|json| Self::Call(sha256(&[&json])))
    }

    /// Whether a call with these arguments is among them. What cannot be told is not.
    #[must_use]
    pub fn covers(&self, arguments: &Arguments) -> bool {
        match self {
            Self::Tool => true,
            Self::Call(_) => Self::call(arguments).is_some_and(|call| call == *self),
            Self::Arguments(rules) => {
                let Ok(value) = arguments.value() else { return false };
                value.is_object() && !rules.is_empty() && rules.iter().all(|rule| rule.evaluate(value) == Truth::True)
            }
        }
    }
}

/// Keeps [grants](Grant).
///
/// A store that fails is treated as a broken part: the call is refused, and nobody is said to have said no.
pub trait GrantStore: Send + Sync + 'static {
    /// Keeps a grant.
    fn add(&self, grant: Grant) -> BoxFuture<'_, Result<(), BoxError>>;

    /// The grants for this owner and this tool that have not ended.
    fn find<'a>(&'a self, owner: &'a Owner, tool: &'a ToolIdentity) -> BoxFuture<'a, Result<Vec<Grant>, BoxError>>;

    /// All grants that have not ended, for this owner where one is named.
    fn list<'a>(&'a self, owner: Option<&'a Owner>) -> BoxFuture<'a, Result<Vec<Grant>, BoxError>>;

    /// Ends a grant; `false` if there is none of this id.
    fn revoke<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, BoxError>>;
}

/// [Grants](Grant) in memory. Those that have ended go when the next one comes.
pub struct MemoryGrants {
    grants: Mutex<All>,
    max: usize,
    max_bytes: (usize, usize),
}

/// The grants, each with the bytes that it takes.
type All = HashMap<(Owner, ToolIdentity), Vec<(Grant, usize)>>;

impl MemoryGrants {
    /// How many grants are kept, unless [`with_max`](Self::with_max) says otherwise.
    pub const MAX: usize = 10_000;

    /// How many bytes one grant may take, and how many all of them, unless [`max_bytes`](Self::max_bytes) says otherwise.
    pub const MAX_BYTES: (usize, usize) = (64 * 1024, 64 * 1024 * 1024);

    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max(Self::MAX)
    }

    /// An empty store that keeps at most so many grants. A full one takes no more until some end.
    #[must_use]
    pub fn with_max(max: usize) -> Self {
        Self { grants: Mutex::default(), max, max_bytes: Self::MAX_BYTES }
    }

    /// Keeps no grant that takes more than `one` bytes as JSON, and of all together no more than `all`.
    #[must_use]
    pub const fn max_bytes(mut self, one: usize, all: usize) -> Self {
        self.max_bytes = (one, all);
        self
    }

    /// A poisoned lock is taken all the same: nothing that runs under it can leave the grants half done.
    fn lock(&self) -> MutexGuard<'_, All> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryGrants {
    fn default() -> Self {
        Self::new()
    }
}

impl GrantStore for MemoryGrants {
    fn add(&self, grant: Grant) -> BoxFuture<'_, Result<(), BoxError>> {
        let (now, bytes, (one, most)) = (now(), size_of_json(&grant), self.max_bytes);
        if bytes > one {
            return Box::pin(ready(Err(format!("a grant takes more than {one} bytes, and is not kept").into())));
        }
        let mut grants = self.lock();
        let (mut count, mut total) = (0, 0);
        grants.retain(|_, of_tool| {
            of_tool.retain(|(grant, _)| grant.expires > now);
            count += of_tool.len();
            total += of_tool.iter().map(|(_, bytes)| bytes).sum::<usize>();
            !of_tool.is_empty()
        });
        if count >= self.max || bytes > most.saturating_sub(total) {
            return Box::pin(ready(Err(format!("there are {count} grants already, and no more are kept").into())));
        }
        let of_tool = grants.entry((grant.owner.clone(), grant.tool.clone())).or_default();
        // The same decision again is a longer or shorter one, and not a second one.
        of_tool.retain(|(old, _)| old.id != grant.id && old.scope != grant.scope);
        of_tool.push((grant, bytes));
        Box::pin(ready(Ok(())))
    }

    fn find<'a>(&'a self, owner: &'a Owner, tool: &'a ToolIdentity) -> BoxFuture<'a, Result<Vec<Grant>, BoxError>> {
        let now = now();
        let grants = self.lock();
        let of_tool = grants.get(&(owner.clone(), tool.clone())).into_iter().flatten();
        let found = of_tool.map(|(grant, _)| grant).filter(|grant| grant.expires > now).cloned().collect();
        Box::pin(ready(Ok(found)))
    }

    fn list<'a>(&'a self, owner: Option<&'a Owner>) -> BoxFuture<'a, Result<Vec<Grant>, BoxError>> {
        let now = now();
        let grants = self.lock();
        let all = grants.values().flatten().map(|(grant, _)| grant);
        let mut found: Vec<Grant> =
            all.filter(|grant| grant.expires > now && owner.is_none_or(|owner| *owner == grant.owner)).cloned().collect();
        found.sort_by(|a, b| (&a.owner, &a.tool, &a.id).cmp(&(&b.owner, &b.tool, &b.id)));
        Box::pin(ready(Ok(found)))
    }

    fn revoke<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, BoxError>> {
        let mut found = false;
        self.lock().retain(|_, of_tool| {
            of_tool.retain(|(grant, _)| {
                grant.id != id || {
                    found = true;
                    false
                }
            });
            !of_tool.is_empty()
        });
        Box::pin(ready(Ok(found)))
    }
}

impl fmt::Debug for MemoryGrants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryGrants").field("max", &self.max).field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}
