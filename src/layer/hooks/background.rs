//! Tells async observers in the background, so that no answer waits for them.

use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{runtime::Handle, sync::Notify};

use super::{
    event::Ended,
    run,
    set::{Limits, Set},
};
use crate::store::size_of_json;

/// What the async observers of a layer have still to hear, in all stacks that this layer and its clones made. A clone is the same.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use serde_json::json;
/// use tower::Layer;
/// use toolstack::{Router, StackExt, layer::HooksLayer, tool::sync_tool_fn};
///
/// let layer = HooksLayer::new().on_finish_async("record", |_| async { /* written somewhere */ });
/// let background = layer.background();
/// let stack = layer.layer(Router::new().tool(sync_tool_fn("ping", || "pong")));
/// assert!(stack.call_tool("ping", json!({})).await.is_completed());
///
/// // Before the process ends, or in a test.
/// background.idle().await;
/// assert_eq!((background.running(), background.waiting(), background.dropped()), (0, 0, 0));
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Background(Arc<Shared>);

#[derive(Default)]
struct Shared {
    work: Mutex<Work>,
    dropped: AtomicU64,
    idle: Notify,
}

#[derive(Default)]
struct Work {
    running: usize,
    /// Each with the bytes that it keeps, and their sum.
    waiting: VecDeque<(Telling, usize)>,
    bytes: usize,
}

/// The end of a call, and the observers that are to hear of it: by their number, in order.
pub(super) struct Telling {
    pub(super) set: Arc<Set>,
    pub(super) observers: Vec<usize>,
    pub(super) ended: Ended<'static>,
}

impl Telling {
    async fn tell(&self) {
        for &number in &self.observers {
            if let Some(hook) = self.set.observers.get(number) {
                super::observe::tell_later(hook, &self.ended).await;
            }
        }
    }

    /// About the bytes that it keeps from being freed.
    fn bytes(&self) -> usize {
        let arguments = &self.ended.call().arguments;
        let arguments = arguments.size().unwrap_or_else(|| size_of_json(arguments));
        self.ended.response().map_or(0, size_of_json).saturating_add(arguments)
    }
}

impl Background {
    /// How many ended calls observers are hearing of at this moment.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.lock().running
    }

    /// How many ended calls wait for their turn.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }

    /// Of how many ended calls the async observers did not hear, or not all of them to the end: there were too many at once, or the
    /// runtime ended before.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Waits until they have heard of every call that is over by now. Bound it: an observer without a
    /// [timeout](super::Hook::timeout) may take for ever.
    ///
    /// Dropping the wait stops nothing.
    pub async fn idle(&self) {
        loop {
            // From here on it hears, so nothing is missed between the look and the wait.
            let idle = self.0.idle.notified();
            if self.0.lock().running == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Begins to tell, or lets it wait for its turn, or drops it where too much waits.
    pub(super) fn begin(&self, telling: Telling, limits: Limits) {
        let Ok(runtime) = Handle::try_current() else {
            telling.observers.iter().filter_map(|&number| telling.set.observers.get(number)).for_each(run::report_no_runtime);
            return;
        };
        match self.0.admit(telling, limits) {
            Admitted::Begins(telling) => {
                let worker = Worker { shared: Arc::clone(&self.0), telling: Some(telling) };
                drop(runtime.spawn(worker.run()));
            }
            Admitted::Waits => {}
            Admitted::Dropped(telling) => {
                drop(telling);
                self.0.count_dropped(1);
            }
        }
    }
}

enum Admitted {
    Begins(Telling),
    Waits,
    Dropped(Telling),
}

impl Shared {
    /// A poisoned lock is taken all the same: nothing that runs under it can leave the work half done.
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(&self, telling: Telling, limits: Limits) -> Admitted {
        // Measured only where it may have to wait, and not under the lock.
        if self.lock().begins(limits) {
            return Admitted::Begins(telling);
        }
        let bytes = telling.bytes();
        let mut work = self.lock();
        if work.begins(limits) {
            return Admitted::Begins(telling);
        }
        let all = work.bytes.saturating_add(bytes);
        if work.waiting.len() >= limits.waiting || all > limits.bytes {
            return Admitted::Dropped(telling);
        }
        work.bytes = all;
        work.waiting.push_back((telling, bytes));
        Admitted::Waits
    }

    /// The next one to tell of; without one, a worker ends.
    fn next(&self) -> Option<Telling> {
        let mut work = self.lock();
        if let Some((telling, bytes)) = work.waiting.pop_front() {
            work.bytes = work.bytes.saturating_sub(bytes);
            return Some(telling);
        }
        self.leave(work);
        None
    }

    fn leave(&self, mut work: MutexGuard<'_, Work>) {
        work.running = work.running.saturating_sub(1);
        let idle = work.running == 0;
        drop(work);
        if idle {
            self.idle.notify_waiters();
        }
    }

    #[cold]
    fn count_dropped(&self, count: usize) {
        let before = self.dropped.fetch_add(count as u64, Ordering::Relaxed);
        let total = before.saturating_add(count as u64);
        // Who is overloaded is not to be flooded with that news: once for each doubling.
        if before.checked_ilog2() != total.checked_ilog2() {
            tracing::warn!(dropped = total, "observers of hooks did not hear how calls ended");
        }
    }
}

impl Work {
    fn begins(&mut self, limits: Limits) -> bool {
        let begins = self.running < limits.at_once;
        self.running += usize::from(begins);
        begins
    }
}

/// Tells of one ended call after the other.
struct Worker {
    shared: Arc<Shared>,
    telling: Option<Telling>,
}

impl Worker {
    async fn run(mut self) {
        while let Some(telling) = &self.telling {
            telling.tell().await;
            self.telling = self.shared.next();
            // What else the runtime has to do has its turn between two calls.
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Worker {
    /// The runtime ended. With its last worker goes what waits: nobody would come for it.
    fn drop(&mut self) {
        if self.telling.take().is_none() {
            return;
        }
        let mut work = self.shared.lock();
        let left = if work.running == 1 {
            work.bytes = 0;
            mem::take(&mut work.waiting)
        } else {
            VecDeque::new()
        };
        self.shared.leave(work);
        self.shared.count_dropped(1 + left.len());
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (running, waiting) = (self.running(), self.waiting());
        f.debug_struct("Background").field("running", &running).field("waiting", &waiting).field("dropped", &self.dropped()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        layer::hooks::Hook,
        model::{Outcome, ToolCall, ToolResponse},
    };

    #[tokio::test]
    async fn what_waits_is_bounded_in_bytes_too() {
        let background = Background::default();
        let limits = Limits { at_once: 1, waiting: 100, bytes: 1000 };
        let hook = Hook::on_finish_async("yields", |_| tokio::task::yield_now());
        let set = Arc::new(Set::new(&[hook], background.clone(), limits));
        let tell = |length: usize| {
            let ended = Ended {
                call: std::borrow::Cow::Owned(ToolCall::new("t", ())),
                outcome: Outcome::Completed,
                response: Some(std::borrow::Cow::Owned(ToolResponse::text("x".repeat(length)))),
                halted_by: None,
            };
            background.begin(Telling { set: Arc::clone(&set), observers: vec![0], ended }, limits);
            (background.running(), background.waiting(), background.dropped())
        };
        // What is told at once waits for nothing, and is not measured.
        assert_eq!(tell(100_000), (1, 0, 0));
        assert_eq!(tell(500), (1, 1, 0));
        assert_eq!(tell(500), (1, 1, 1));
        assert_eq!(tell(100), (1, 2, 1));
        background.idle().await;
        assert_eq!(background.0.lock().bytes, 0);
        assert_eq!((tell(1), tell(900)), ((1, 0, 1), (1, 1, 1)));
    }
}
