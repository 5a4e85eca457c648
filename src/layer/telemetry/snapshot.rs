use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use smol_str::SmolStr;

use super::{
    counts::Counts,
    latency::Latency,
    places::{self, LISTS},
    shard::{BOUNDS, Buckets, Totals},
    window::Entry,
};

/// What was counted until one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Since when it was counted.
    pub since: SystemTime,
    /// When it was read.
    pub taken: SystemTime,
    /// The tools that were called, by name; [`UNKNOWN_TOOL`](super::UNKNOWN_TOOL) and [`OTHER_TOOLS`](super::OTHER_TOOLS) where there
    /// were such calls.
    pub tools: BTreeMap<SmolStr, ToolStats>,
    /// The lists. They are not in the window.
    pub lists: ToolStats,
}

/// What was counted of one tool.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolStats {
    /// How many calls run now.
    pub in_flight: u64,
    /// How all calls ended. Exact.
    pub lifetime: Counts,
    /// How long all calls took together.
    pub busy: Duration,
    /// How the calls of the window ended.
    pub window: Counts,
    /// How long the calls of the window took.
    pub latency: Latency,
    /// How many of all calls took how long.
    buckets: Buckets,
}

impl Snapshot {
    pub(super) fn new(since: SystemTime, names: &[SmolStr], totals: Vec<Totals>, window: &[Entry]) -> Self {
        let mut stats: Vec<ToolStats> = totals.into_iter().map(ToolStats::of).collect();
        for entry in window {
            if let Some(stats) = stats.get_mut(entry.tool as usize) {
                stats.window.add(entry.outcome as usize, 1);
                stats.latency.record(entry.took);
            }
        }
        let lists = stats.get_mut(LISTS as usize).map(std::mem::take).unwrap_or_default();
        let name = |place: usize| places::name(u32::try_from(place).unwrap_or(u32::MAX), names);
        let called = stats.into_iter().enumerate().filter(|(place, stats)| *place != LISTS as usize && stats.is_used());
        Self { since, taken: SystemTime::now(), tools: called.map(|(place, stats)| (name(place), stats)).collect(), lists }
    }

    /// How many calls run now.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.tools.values().map(|tool| tool.in_flight).sum()
    }

    /// How the calls of all tools ended.
    #[must_use]
    pub fn lifetime(&self) -> Counts {
        self.tools.values().fold(Counts::default(), |mut sum, tool| {
            sum.merge(&tool.lifetime);
            sum
        })
    }

    /// How many calls the window has.
    #[must_use]
    pub fn window_calls(&self) -> u64 {
        self.tools.values().map(|tool| tool.window.total()).sum()
    }
}

impl ToolStats {
    /// How many of all calls took at most so long, and longer than the bound before; those beyond all bounds come last. Exact.
    pub fn durations(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        BOUNDS.iter().map(|nanos| Some(Duration::from_nanos(*nanos))).chain([None]).zip(self.buckets)
    }

    fn of(totals: Totals) -> Self {
        Self {
            // A call may have ended between the two readings.
            in_flight: totals.begun.saturating_sub(totals.ended.total()),
            lifetime: totals.ended,
            busy: Duration::from_nanos(totals.nanos),
            buckets: totals.buckets,
            ..Self::default()
        }
    }

    fn is_used(&self) -> bool {
        self.in_flight > 0 || self.lifetime.total() > 0
    }
}
