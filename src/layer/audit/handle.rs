use std::sync::{Arc, atomic::Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use super::queue::{Item, Shared};

/// Watches a sink: how many records it wrote and lost, and whether it is done. It keeps neither the sink nor the stack.
#[derive(Clone, Debug)]
pub struct AuditHandle {
    shared: Arc<Shared>,
    sender: mpsc::WeakUnboundedSender<Item>,
    done: watch::Receiver<()>,
}

impl AuditHandle {
    pub(super) const fn new(shared: Arc<Shared>, sender: mpsc::WeakUnboundedSender<Item>, done: watch::Receiver<()>) -> Self {
        Self { shared, sender, done }
    }

    /// How many records were written, or taken out of the channel.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// How many records found no room in the queue, or nobody at its other end.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// How many records had room in the queue and could not be written. Some of them may stand in the file all the same.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Whether the last write failed.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.shared.failing.load(Ordering::Acquire)
    }

    /// How many places of the queue are taken, or kept for requests that are running.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.shared.queued()
    }

    /// Waits until all that was recorded so far is written, or taken out of the channel, or could not be. Where the sink
    /// [syncs](super::AuditFile::sync), it is on the disk then.
    ///
    /// Dropping the wait changes nothing.
    pub async fn flush(&self) {
        let (told, flushed) = oneshot::channel();
        // The sender must not outlive the send: the sink ends with the last of them.
        let sent = self.sender.upgrade().is_some_and(|sender| sender.send(Item::Flush(told)).is_ok());
        if sent {
            // An error is the end of the sink, which writes all it has before.
            let _ = flushed.await;
        } else {
            self.closed().await;
        }
    }

    /// Waits until the sink is done: the last stack with it is dropped, and what was queued is written. For a channel, until its receiver
    /// is dropped.
    ///
    /// Dropping the wait changes nothing.
    pub async fn closed(&self) {
        let mut done = self.done.clone();
        while done.changed().await.is_ok() {}
    }
}

/// That records were lost at this place of a stream: a queue was full, or writing failed. `sequence` of the records before and after says
/// which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditLoss {
    /// How many.
    pub lost: u64,
}

/// What a stream of records consists of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "a box would cost each record an allocation")]
pub enum AuditEntry {
    /// A record.
    Record(super::AuditRecord),
    /// A gap.
    Lost(AuditLoss),
}

impl AuditEntry {
    pub(super) const fn lost(lost: u64) -> Self {
        Self::Lost(AuditLoss { lost })
    }

    /// The record, if it is one.
    #[must_use]
    pub const fn record(&self) -> Option<&super::AuditRecord> {
        match self {
            Self::Record(record) => Some(record),
            Self::Lost(_) => None,
        }
    }
}
