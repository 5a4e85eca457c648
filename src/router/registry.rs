use std::{
    borrow::Borrow,
    cmp::Ordering as Order,
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;

use super::routes::Routes;
use crate::{
    model::{NameError, ToolList, ToolName},
    stack::Erased,
    tool::{Handler, ToolEntry},
};

/// Why a tool or a router could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouterError {
    /// Another tool has the name.
    #[error("there is a tool `{0}` already")]
    Duplicate(ToolName),
    /// A name breaks the rule once the prefix stands before it, or the prefix itself does.
    #[error("the name within the prefix `{prefix}`: {error}")]
    #[non_exhaustive]
    Name {
        /// The prefix.
        prefix: String,
        /// What is wrong.
        error: NameError,
    },
    /// The router would be within itself.
    #[error("a router cannot be nested within itself")]
    Within,
}

/// The tools of one router, and the routers within it.
///
/// What is looked up is one flat table behind a shared snapshot. It is built anew by the first who looks after a change, here or
/// further in.
pub(crate) struct Registry {
    own: Mutex<Own>,
    version: AtomicU64,
    changes: watch::Sender<u64>,
    flat: ArcSwap<Flat>,
    outer: Mutex<Vec<Weak<Self>>>,
}

#[derive(Default)]
struct Own {
    tools: BTreeSet<ByName>,
    mounts: Vec<Arc<Mount>>,
    fallback: Option<Arc<dyn Handler>>,
}

/// A router within another.
pub(super) struct Mount {
    /// What its names begin with outside, if anything.
    pub(super) prefix: Option<ToolName>,
    pub(super) registry: Arc<Registry>,
    pub(super) service: Arc<dyn Erased>,
    /// Whether layers stand around it, so that what it lists depends on who asks.
    pub(super) layered: bool,
    pub(super) age: Age,
}

/// When something came to be where it is; the smaller, the older.
///
/// Two tools within can come to have one name outside. The older one keeps it, whichever router was added first: otherwise whoever adds
/// tools to one router could take over those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Age(u64);

impl Age {
    pub(super) fn now() -> Self {
        static AGES: AtomicU64 = AtomicU64::new(0);
        Self(AGES.fetch_add(1, Ordering::Relaxed))
    }
}

/// Where the calls of one tool go.
pub(super) struct Route {
    pub(super) name: ToolName,
    pub(super) entry: Arc<ToolEntry>,
    pub(super) target: Target,
    /// Since when there is a tool of that name here.
    pub(super) age: Age,
}

pub(super) enum Target {
    Handler(Arc<dyn Handler>),
    Mount(Arc<Mount>, ToolName),
}

/// A route in the order of names, without a copy of the name: with many tools, that is a tenth of what each costs.
struct ByName(Arc<Route>);

impl ByName {
    fn new(entry: Arc<ToolEntry>, handler: Arc<dyn Handler>, age: Age) -> Self {
        Self(Arc::new(Route { name: entry.spec().name.clone(), entry, target: Target::Handler(handler), age }))
    }

    fn name(&self) -> &ToolName {
        &self.0.name
    }
}

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        self.name()
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for ByName {}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &Self) -> Order {
        self.name().cmp(other.name())
    }
}

/// Everything that can be reached from a router, as it was at one version.
#[derive(Default)]
pub(crate) struct Flat {
    version: u64,
    pub(super) routes: Routes,
    pub(super) mounts: Vec<Arc<Mount>>,
    pub(super) fallback: Option<Arc<dyn Handler>>,
    /// Whether what is listed depends on who asks.
    pub(super) layered: bool,
    list: OnceLock<ToolList>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            own: Mutex::default(),
            version: AtomicU64::new(0),
            changes: watch::Sender::new(0),
            flat: ArcSwap::default(),
            outer: Mutex::default(),
        }
    }
}

/// A poisoned lock is taken all the same: nothing that runs under these locks can leave them half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mount {
    /// The name that `name` has outside.
    pub(super) fn outside(&self, name: &ToolName) -> Result<ToolName, RouterError> {
        match &self.prefix {
            None => Ok(name.clone()),
            Some(prefix) => name.within(prefix).map_err(|error| RouterError::Name { prefix: prefix.to_string(), error }),
        }
    }

    /// The name that `name` has within, if it belongs here.
    pub(super) fn within<'a>(&self, name: &'a str) -> Option<&'a str> {
        match &self.prefix {
            None => Some(name),
            Some(prefix) => name.strip_prefix(prefix.as_str())?.strip_prefix('.'),
        }
    }
}

impl Registry {
    /// The table as it is now.
    #[inline]
    pub(super) fn current(&self) -> Guard<Arc<Flat>> {
        let flat = self.flat.load();
        if self.is_current(&flat) { flat } else { self.rebuild() }
    }

    /// Whether the table is still that one. Looks at nothing that anybody writes to as long as nothing changes.
    #[inline]
    pub(super) fn is_current(&self, flat: &Flat) -> bool {
        flat.version == self.version.load(Ordering::Acquire)
    }

    #[cold]
    fn rebuild(&self) -> Guard<Arc<Flat>> {
        let own = lock(&self.own);
        let version = self.version.load(Ordering::Acquire);
        let mut flat = Flat { version, mounts: own.mounts.clone(), fallback: own.fallback.clone(), ..Flat::default() };
        let mut routes: Vec<_> = own.tools.iter().map(|tool| Arc::clone(&tool.0)).collect();
        for mount in &own.mounts {
            let within = mount.registry.current();
            flat.layered |= mount.layered || within.layered;
            for route in within.routes.iter() {
                // Set-up refuses a second tool of a name; one that came later, within, stays hidden.
                let Ok(outside) = mount.outside(&route.name) else { continue };
                let entry = if mount.prefix.is_none() {
                    Arc::clone(&route.entry)
                } else {
                    Arc::new(route.entry.renamed((**route.entry.spec()).clone().with_name(outside.clone())))
                };
                let target = Target::Mount(Arc::clone(mount), route.name.clone());
                // A tool is no longer here than the router that it is in.
                routes.push(Arc::new(Route { name: outside, entry, target, age: route.age.max(mount.age) }));
            }
        }
        flat.routes = Routes::new(routes);
        self.flat.store(Arc::new(flat));
        self.flat.load()
    }

    /// Tells everybody outside that something changed.
    fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.changes.send_modify(|version| *version += 1);
        // Taken out of the lock, so that no two locks are held at once.
        let outer: Vec<_> = lock(&self.outer).iter().filter_map(Weak::upgrade).collect();
        outer.iter().for_each(|outer| outer.changed());
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn insert(&self, entry: Arc<ToolEntry>, handler: Arc<dyn Handler>) -> Result<(), RouterError> {
        let tool = ByName::new(entry, handler, Age::now());
        {
            let mut own = lock(&self.own);
            if own.tools.contains(&tool) || own.holds_within(tool.name()) {
                return Err(RouterError::Duplicate(tool.name().clone()));
            }
            own.tools.insert(tool);
        }
        self.changed();
        Ok(())
    }

    pub(super) fn replace(&self, entry: Arc<ToolEntry>, handler: Arc<dyn Handler>) -> Result<(), RouterError> {
        {
            let mut own = lock(&self.own);
            let name = &entry.spec().name;
            let age = match own.tools.get(name.as_str()) {
                Some(old) => old.0.age,
                // It would stand outside the layers of the one that is there.
                None if own.holds_within(name) => return Err(RouterError::Duplicate(name.clone())),
                None => Age::now(),
            };
            own.tools.replace(ByName::new(entry, handler, age));
        }
        self.changed();
        Ok(())
    }

    pub(super) fn remove(&self, name: &str) -> bool {
        let removed = lock(&self.own).tools.remove(name);
        if removed {
            self.changed();
        }
        removed
    }

    pub(super) fn set_fallback(&self, fallback: Arc<dyn Handler>) {
        lock(&self.own).fallback = Some(fallback);
        self.changed();
    }

    pub(super) fn mount(self: &Arc<Self>, mount: Mount) -> Result<(), RouterError> {
        if mount.registry.reaches(self) {
            return Err(RouterError::Within);
        }
        {
            let there = self.current();
            for route in mount.registry.current().routes.iter() {
                let outside = mount.outside(&route.name)?;
                if there.routes.contains(&outside) {
                    return Err(RouterError::Duplicate(outside));
                }
            }
        }
        let within = Arc::clone(&mount.registry);
        lock(&self.own).mounts.push(Arc::new(mount));
        lock(&within.outer).push(Arc::downgrade(self));
        self.changed();
        Ok(())
    }

    /// Whether `other` is this registry or within it.
    fn reaches(&self, other: &Arc<Self>) -> bool {
        std::ptr::eq(self, Arc::as_ptr(other)) || lock(&self.own).mounts.iter().any(|mount| mount.registry.reaches(other))
    }
}

impl Own {
    /// Whether a router within has the name.
    fn holds_within(&self, name: &ToolName) -> bool {
        self.mounts.iter().any(|mount| mount.holds(name))
    }
}

impl Mount {
    fn holds(&self, name: &ToolName) -> bool {
        self.within(name).is_some_and(|within| self.registry.current().routes.contains(within))
    }
}

impl Flat {
    /// Whether there is an answer to names that are not in the list.
    pub(super) fn falls_back(&self) -> bool {
        self.fallback.is_some() || self.mounts.iter().any(|mount| mount.registry.current().falls_back())
    }

    /// All tools, whoever asks. The same list each time.
    pub(super) fn list(&self) -> ToolList {
        self.list.get_or_init(|| ToolList::new(self.routes.iter().map(|route| Arc::clone(route.entry.spec())))).clone()
    }
}
