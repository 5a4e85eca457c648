use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::SystemTime,
};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use smol_str::SmolStr;
use thread_local::ThreadLocal;
use tokio::time::Instant;

use super::{
    Dashboard,
    places::{FIRST_TOOL, LISTS, OTHER, UNKNOWN},
    shard::{Shard, Totals},
    snapshot::Snapshot,
};
use crate::{
    model::Outcome,
    tool::{Tool, ToolEntry},
};

/// What calls were counted, and how long the last ones took.
///
/// Clones are handles to the same counts; several stacks may share them. Each thread writes counters of its own, and whoever reads adds
/// them up: nothing is lost and nobody waits. What is read while calls run may be a few calls apart from one number to the next.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    /// Tells these from other metrics that count the same tools. Not zero.
    id: u32,
    began: Instant,
    since: SystemTime,
    window: usize,
    max_tools: usize,
    names: ArcSwap<Names>,
    adding: Mutex<()>,
    shards: ThreadLocal<Shard>,
}

/// The tools that have a place: names by place, and places by name.
#[derive(Clone, Default)]
struct Names {
    list: Vec<SmolStr>,
    places: HashMap<SmolStr, u32, RandomState>,
}

impl Metrics {
    /// How many calls the window has where nothing else is said.
    pub const WINDOW: usize = 10_000;

    /// How many tools are counted apart where nothing else is said.
    pub const MAX_TOOLS: usize = 1_000;

    /// How many calls a window has at most: 24 MB for each thread that calls.
    pub const LARGEST_WINDOW: usize = 1_000_000;

    /// How many tools are counted apart at most.
    pub const MOST_TOOLS: usize = 100_000;

    /// No counts so far.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bounds(Self::WINDOW, Self::MAX_TOOLS)
    }

    /// Counts with latencies of the last `window` calls of all tools together, for at most so many tools. Neither is more than
    /// [`LARGEST_WINDOW`](Self::LARGEST_WINDOW) and [`MOST_TOOLS`](Self::MOST_TOOLS), whatever is asked for.
    ///
    /// Each thread that calls takes 24 bytes for each call of the window, and about 400 for each tool that was called on it.
    #[must_use]
    pub fn with_bounds(window: usize, max_tools: usize) -> Self {
        static IDS: AtomicU32 = AtomicU32::new(1);
        let (window, max_tools) = (window.min(Self::LARGEST_WINDOW), max_tools.min(Self::MOST_TOOLS));
        Self(Arc::new(Inner {
            id: IDS.fetch_add(1, Ordering::Relaxed).max(1),
            began: Instant::now(),
            since: SystemTime::now(),
            window,
            max_tools,
            names: ArcSwap::default(),
            adding: Mutex::new(()),
            shards: ThreadLocal::new(),
        }))
    }

    /// What was counted until now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let names = self.0.names.load();
        let mut totals = vec![Totals::default(); FIRST_TOOL as usize + names.list.len()];
        let mut window = Vec::new();
        for shard in &self.0.shards {
            shard.add_to(&mut totals);
            window.append(&mut shard.window.read());
        }
        // Those of one thread stay in their order.
        window.sort_by_key(|entry| entry.ended);
        let last = window.split_off(window.len().saturating_sub(self.0.window));
        Snapshot::new(self.0.since, &names.list, totals, &last)
    }

    /// What was counted, in the shape of ADR-003's dashboard.
    #[must_use]
    pub fn dashboard(&self) -> Dashboard {
        Dashboard::of(&self.snapshot())
    }

    /// A tool `get_metrics` that answers what was counted, in the shape of ADR-003. It reads, and takes no arguments.
    ///
    /// Whoever may call it learns the names of all tools that were called: hide it from those who should not.
    pub fn tool(&self) -> Tool {
        let metrics = self.clone();
        super::dashboard::tool(move || metrics.snapshot())
    }

    /// The place of a tool.
    #[inline]
    pub(super) fn place(&self, tool: Option<&ToolEntry>) -> u32 {
        tool.map_or(UNKNOWN, |tool| tool.place_of(self.0.id, || self.find(&tool.spec().name)))
    }

    /// The name that a place is shown under.
    #[cfg(feature = "opentelemetry")]
    pub(super) fn label(&self, place: u32) -> SmolStr {
        super::places::name(place, &self.0.names.load().list)
    }

    #[cold]
    fn find(&self, name: &str) -> u32 {
        let known = |names: &Names| names.places.get(name).copied();
        if let Some(place) = known(&self.0.names.load()) {
            return place;
        }
        let _adding = self.0.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let names = self.0.names.load();
        if let Some(place) = known(&names) {
            return place;
        }
        let count = names.list.len();
        let Ok(place) = u32::try_from(count) else { return OTHER };
        if count >= self.0.max_tools {
            return OTHER;
        }
        let (name, place) = (SmolStr::new(name), place + FIRST_TOOL);
        let mut more = Names::clone(&names);
        more.places.insert(name.clone(), place);
        more.list.push(name);
        self.0.names.store(Arc::new(more));
        place
    }

    #[inline]
    fn shard(&self) -> &Shard {
        self.0.shards.get_or(|| Shard::new(FIRST_TOOL as usize + self.0.max_tools, self.0.window))
    }

    #[inline]
    pub(super) fn begin(&self, place: u32) {
        self.shard().begin(place);
    }

    /// Counts what began at one instant and ended now; answers how long it took.
    #[inline]
    pub(super) fn end(&self, place: u32, started: Instant, outcome: Outcome) -> std::time::Duration {
        let now = Instant::now();
        let took = now.saturating_duration_since(started);
        let nanos = nanos(took);
        let shard = self.shard();
        shard.end(place, nanos, outcome);
        if place != LISTS {
            let ended = now.saturating_duration_since(self.0.began);
            shard.remember(place, self::nanos(ended), nanos, outcome);
        }
        took
    }
}

/// A duration in nanoseconds, without the wide numbers of [`Duration::as_nanos`](std::time::Duration::as_nanos).
#[inline]
fn nanos(duration: std::time::Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = (self.0.window, self.0.max_tools);
        f.debug_struct("Metrics").field("window", &bounds.0).field("max_tools", &bounds.1).finish_non_exhaustive()
    }
}
