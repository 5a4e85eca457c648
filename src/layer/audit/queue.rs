//! The bounded queue between the stack and whoever takes its time over records. What does not fit is counted, where it would have stood.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use tokio::sync::{mpsc, oneshot, watch};

use super::{AuditHandle, AuditRecord};

/// What the two ends share.
#[derive(Debug)]
pub(super) struct Shared {
    capacity: usize,
    /// Places that are taken or kept.
    taken: AtomicUsize,
    /// How many were lost since the last one that fitted.
    gap: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Whether the last write failed.
    pub(super) failing: AtomicBool,
}

impl Shared {
    pub(super) fn queued(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(super) fn take_gap(&self) -> u64 {
        self.gap.swap(0, Ordering::Relaxed)
    }
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would cost each record an allocation")]
pub(super) enum Item {
    /// A record, and how many were lost right before it.
    Record(u64, AuditRecord),
    /// Somebody waits for all that came before.
    Flush(oneshot::Sender<()>),
}

/// The end that records go in at.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    name: &'static str,
    shared: Arc<Shared>,
    sender: mpsc::UnboundedSender<Item>,
    done: watch::Receiver<()>,
}

/// The end that they come out of.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) shared: Arc<Shared>,
    receiver: mpsc::UnboundedReceiver<Item>,
    /// Dropped with the outlet, which tells whoever waits for that.
    _done: watch::Sender<()>,
}

/// A queue of so many places, and one at least.
pub(super) fn queue(name: &'static str, capacity: usize) -> (Queue, Outlet) {
    let shared = Arc::new(Shared {
        capacity: capacity.max(1),
        taken: AtomicUsize::new(0),
        gap: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        written: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        failing: AtomicBool::new(false),
    });
    // The bound is the count of places: a place can be kept for a record that is not there yet.
    let (sender, receiver) = mpsc::unbounded_channel();
    let (told, done) = watch::channel(());
    (Queue { name, shared: Arc::clone(&shared), sender, done }, Outlet { shared, receiver, _done: told })
}

impl Queue {
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn handle(&self) -> AuditHandle {
        AuditHandle::new(Arc::clone(&self.shared), self.sender.downgrade(), self.done.clone())
    }

    pub(super) fn is_failing(&self) -> bool {
        self.shared.failing.load(Ordering::Acquire)
    }

    pub(super) fn reserve(&self) -> bool {
        let room = |taken: usize| (taken < self.shared.capacity).then_some(taken + 1);
        !self.sender.is_closed() && self.shared.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, room).is_ok()
    }

    pub(super) fn push(&self, record: AuditRecord) {
        if self.reserve() { self.push_reserved(record) } else { self.lose() }
    }

    pub(super) fn push_reserved(&self, record: AuditRecord) {
        let gap = self.shared.take_gap();
        if self.sender.send(Item::Record(gap, record)).is_err() {
            self.shared.taken.fetch_sub(1, Ordering::AcqRel);
            self.shared.gap.fetch_add(gap, Ordering::Relaxed);
            self.lose();
        }
    }

    #[cold]
    fn lose(&self) {
        self.shared.lost.fetch_add(1, Ordering::Relaxed);
        if self.shared.gap.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(sink = self.name, closed = self.sender.is_closed(), "audit: no room for a record, and maybe for more");
        }
    }
}

impl Outlet {
    pub(super) async fn next(&mut self) -> Option<Item> {
        let item = self.receiver.recv().await;
        self.taken(item)
    }

    /// Waits on the thread that calls it, which must not be one of a runtime.
    pub(super) fn next_blocking(&mut self) -> Option<Item> {
        let item = self.receiver.blocking_recv();
        self.taken(item)
    }

    pub(super) fn next_now(&mut self) -> Option<Item> {
        let item = self.receiver.try_recv().ok();
        self.taken(item)
    }

    fn taken(&self, item: Option<Item>) -> Option<Item> {
        if let Some(Item::Record(..)) = item {
            self.shared.taken.fetch_sub(1, Ordering::AcqRel);
        }
        item
    }
}
