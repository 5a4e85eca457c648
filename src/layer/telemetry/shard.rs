use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use super::{
    counts::Counts,
    window::{Entry, Window},
};
use crate::model::Outcome;

/// The upper bounds of the buckets that exporters show, in nanoseconds: those that OpenTelemetry's conventions name for the duration of MCP
/// operations. What took longer than the last is in a bucket of its own.
pub(super) const BOUNDS: [u64; 14] = {
    let milliseconds = [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000];
    let mut bounds = [0; 14];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = milliseconds[at] * 1_000_000;
        at += 1;
    }
    bounds
};

/// How many durations fell into each bucket.
pub(super) type Buckets = [u64; BOUNDS.len() + 1];

/// What one thread has counted. It alone writes; any may read meanwhile.
pub(super) struct Shard {
    tools: Box<[OnceLock<Box<[Cells; CHUNK]>>]>,
    pub(super) window: Window,
}

/// Room is made for so many tools at a time.
const CHUNK: usize = 16;

/// What one thread has counted of one tool.
#[derive(Default)]
pub(super) struct Cells {
    begun: Cell,
    ended: [Cell; Outcome::COUNT],
    nanos: Cell,
    buckets: [Cell; BOUNDS.len() + 1],
}

/// A number that one thread adds to.
#[derive(Default)]
struct Cell(AtomicU64);

impl Cell {
    #[inline]
    fn add(&self, number: u64) {
        // No other thread writes, so that nothing comes between the two.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What all threads have counted of one tool.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// It may have begun on one thread and ended on another.
    pub(super) begun: u64,
    pub(super) ended: Counts,
    pub(super) nanos: u64,
    pub(super) buckets: Buckets,
}

impl Shard {
    /// Room for so many tools, and a window of so many calls.
    pub(super) fn new(tools: usize, window: usize) -> Self {
        Self { tools: (0..tools.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect(), window: Window::new(window) }
    }

    #[inline]
    fn cells(&self, tool: u32) -> Option<&Cells> {
        let tool = tool as usize;
        let chunk = self.tools.get(tool / CHUNK)?;
        chunk.get_or_init(Box::default).get(tool % CHUNK)
    }

    #[inline]
    pub(super) fn begin(&self, tool: u32) {
        if let Some(cells) = self.cells(tool) {
            cells.begun.add(1);
        }
    }

    #[inline]
    pub(super) fn end(&self, tool: u32, nanos: u64, outcome: Outcome) {
        if let Some(cells) = self.cells(tool) {
            cells.ended[outcome.index()].add(1);
            cells.nanos.add(nanos);
            // Most calls are over before the first bound.
            let bucket = if nanos <= BOUNDS[0] { 0 } else { BOUNDS.partition_point(|bound| *bound < nanos) };
            cells.buckets[bucket].add(1);
        }
    }

    /// Writes a call that ended into the window.
    #[inline]
    pub(super) fn remember(&self, tool: u32, ended: u64, took: u64, outcome: Outcome) {
        #[expect(clippy::cast_possible_truncation, reason = "there are few outcomes")]
        self.window.push(Entry { ended, took, tool, outcome: outcome.index() as u32 });
    }

    /// Adds what was counted of each tool to what there is.
    pub(super) fn add_to(&self, totals: &mut [Totals]) {
        for (chunk, totals) in self.tools.iter().zip(totals.chunks_mut(CHUNK)) {
            let Some(chunk) = chunk.get() else { continue };
            for (cells, total) in chunk.iter().zip(totals) {
                cells.add_to(total);
            }
        }
    }
}

impl Cells {
    fn add_to(&self, total: &mut Totals) {
        // What ended first, so that no more has ended than begun, as far as this thread goes.
        for (index, cell) in self.ended.iter().enumerate() {
            total.ended.add(index, cell.get());
        }
        total.nanos = total.nanos.saturating_add(self.nanos.get());
        for (sum, cell) in total.buckets.iter_mut().zip(&self.buckets) {
            *sum += cell.get();
        }
        total.begun += self.begun.get();
    }
}
