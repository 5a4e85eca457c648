use std::{fmt, sync::Arc};

use arc_swap::Guard;
use tokio::sync::watch;

use super::registry::{Flat, Registry, RouterError};
use crate::{
    model::ToolList,
    tool::{Handler, Tool, ToolEntry, entry::Registered},
};

/// The tools that can be reached from some place in a stack, as they are at the moment of asking, whoever asks.
///
/// For whoever sets up or judges: what a caller may see is a [list](crate::StackExt::list_tools).
#[derive(Clone)]
pub struct Catalog(Repr);

#[derive(Clone)]
enum Repr {
    Registry(Arc<Registry>),
    /// One tool, seen by its own layers.
    One(Arc<Registered>),
}

impl Catalog {
    pub(super) const fn new(registry: Arc<Registry>) -> Self {
        Self(Repr::Registry(registry))
    }

    pub(crate) const fn of_one(registered: Arc<Registered>) -> Self {
        Self(Repr::One(registered))
    }

    /// The tools as they are now, to look one up without counting a reference to it.
    #[inline]
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        match &self.0 {
            Repr::Registry(registry) => Snapshot::Flat(registry.current()),
            Repr::One(one) => Snapshot::One(one.entry().map(|entry| &**entry)),
        }
    }

    /// The tool of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<ToolEntry>> {
        match &self.0 {
            Repr::Registry(registry) => registry.current().routes.get(name).map(|route| Arc::clone(&route.entry)),
            Repr::One(one) => one.entry().filter(|entry| entry.spec().name == *name).cloned(),
        }
    }

    /// All tools by name, whoever may call them.
    #[must_use]
    pub fn list(&self) -> ToolList {
        match &self.0 {
            Repr::Registry(registry) => registry.current().list(),
            Repr::One(one) => ToolList::new(one.entry().map(|entry| Arc::clone(entry.spec()))),
        }
    }

    /// The tools, or `None` where a fallback answers for others too.
    pub(crate) fn closed(&self) -> Option<Vec<Arc<ToolEntry>>> {
        match &self.0 {
            Repr::Registry(registry) => {
                let flat = registry.current();
                (!flat.falls_back()).then(|| flat.routes.iter().map(|route| Arc::clone(&route.entry)).collect())
            }
            Repr::One(one) => Some(one.entry().cloned().into_iter().collect()),
        }
    }

    /// Hears of tools that are added or removed from now on.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(match &self.0 {
            Repr::Registry(registry) => Some(registry.changes()),
            Repr::One(_) => None,
        })
    }
}

/// The tools of a [`Catalog`] at one moment.
pub(crate) enum Snapshot<'a> {
    Flat(Guard<Arc<Flat>>),
    One(Option<&'a ToolEntry>),
}

impl Snapshot<'_> {
    /// The tool of that name. One tool, seen by its own layers, answers to any.
    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<&ToolEntry> {
        match self {
            Snapshot::Flat(flat) => flat.routes.get(name).map(|route| &*route.entry),
            Snapshot::One(entry) => *entry,
        }
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Catalog").field(&self.list()).finish()
    }
}

/// Hears of tools that are added or removed, also in routers further in.
#[derive(Clone, Debug)]
pub struct Changes(Option<watch::Receiver<u64>>);

impl Changes {
    /// Waits for the next change. Several changes since the last time are one; `false` once there can be none any more.
    ///
    /// Dropping the wait loses no change.
    pub async fn changed(&mut self) -> bool {
        match &mut self.0 {
            Some(changes) => changes.changed().await.is_ok(),
            None => false,
        }
    }
}

/// Adds and removes tools of a [`Router`](super::Router) while it runs.
///
/// Calls that are running are not disturbed. A call that a layer judged before its tool was replaced is refused.
#[derive(Clone)]
pub struct Handle(Arc<Registry>);

impl Handle {
    pub(super) const fn new(registry: Arc<Registry>) -> Self {
        Self(registry)
    }

    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// If there is one of that name.
    pub fn insert<H: Handler>(&self, tool: Tool<H>) -> Result<(), RouterError> {
        let (entry, handler) = registered(tool);
        self.0.insert(entry, handler)
    }

    /// Adds a tool, in the place of one of that name if the router has one of its own.
    ///
    /// # Errors
    ///
    /// If a router within has one of that name: replace it by the handle of that router, within the layers around it.
    pub fn replace<H: Handler>(&self, tool: Tool<H>) -> Result<(), RouterError> {
        let (entry, handler) = registered(tool);
        self.0.replace(entry, handler)
    }

    /// Removes a tool; `false` if there is none of that name among the router's own.
    #[must_use = "says whether there was such a tool"]
    pub fn remove(&self, name: &str) -> bool {
        self.0.remove(name)
    }

    /// The tools.
    #[must_use]
    pub fn catalog(&self) -> Catalog {
        Catalog::new(Arc::clone(&self.0))
    }
}

pub(super) fn registered<H: Handler>(tool: Tool<H>) -> (Arc<ToolEntry>, Arc<dyn Handler>) {
    let (spec, source, handler) = tool.into_parts();
    (Arc::new(ToolEntry::new(Arc::new(spec), source)), Arc::new(handler))
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.catalog().list()).finish()
    }
}
