use std::{borrow::Cow, sync::atomic::Ordering};

use super::{
    AuditEntry, AuditHandle, AuditRecord, AuditSink,
    queue::{Item, Outlet, Queue, queue},
};

/// Records for a task of your own: at most so many wait in the channel.
///
/// One that finds no room is lost, and the receiver hears how many were where they would have stood. Where none may be lost, make the layer
/// [required](super::AuditLayer::required): a request that could not be recorded is refused then.
#[must_use]
pub fn channel(capacity: usize) -> (ChannelSink, AuditReceiver) {
    let (queue, outlet) = queue("channel", capacity);
    (ChannelSink { queue }, AuditReceiver { outlet, held: None })
}

/// The end of a [`channel`] that records go in at.
#[derive(Clone, Debug)]
pub struct ChannelSink {
    queue: Queue,
}

impl ChannelSink {
    /// What counts, and waits for the receiver.
    #[must_use]
    pub fn handle(&self) -> AuditHandle {
        self.queue.handle()
    }
}

impl AuditSink for ChannelSink {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.queue.name())
    }

    fn record(&self, record: &AuditRecord) {
        self.queue.push(record.clone());
    }

    fn reserve(&self) -> bool {
        self.queue.reserve()
    }

    fn record_reserved(&self, record: &AuditRecord) {
        self.queue.push_reserved(record.clone());
    }

    fn take(&self, record: AuditRecord, reserved: bool) {
        if reserved { self.queue.push_reserved(record) } else { self.queue.push(record) }
    }
}

/// The end of a [`channel`] that records come out of.
#[derive(Debug)]
pub struct AuditReceiver {
    outlet: Outlet,
    /// What comes right after a gap.
    held: Option<AuditRecord>,
}

impl AuditReceiver {
    /// Waits for the next entry; `None` once the last stack with the sink is dropped and everything is out.
    ///
    /// Dropping the wait loses nothing.
    pub async fn recv(&mut self) -> Option<AuditEntry> {
        if let Some(entry) = self.try_recv() {
            return Some(entry);
        }
        loop {
            match self.outlet.next().await {
                Some(item) => {
                    if let Some(entry) = self.entry(item) {
                        return Some(entry);
                    }
                }
                None => return self.gap(),
            }
        }
    }

    /// The next entry, if there is one now.
    pub fn try_recv(&mut self) -> Option<AuditEntry> {
        if let Some(record) = self.held.take() {
            return Some(self.out(record));
        }
        while let Some(item) = self.outlet.next_now() {
            if let Some(entry) = self.entry(item) {
                return Some(entry);
            }
        }
        self.gap()
    }

    fn entry(&mut self, item: Item) -> Option<AuditEntry> {
        match item {
            Item::Record(0, record) => Some(self.out(record)),
            Item::Record(gap, record) => {
                self.held = Some(record);
                Some(AuditEntry::lost(gap))
            }
            Item::Flush(told) => {
                // Whoever waited may have gone.
                let _ = told.send(());
                None
            }
        }
    }

    /// What was lost after the last record that fitted.
    fn gap(&self) -> Option<AuditEntry> {
        Some(self.outlet.shared.take_gap()).filter(|gap| *gap > 0).map(AuditEntry::lost)
    }

    fn out(&self, record: AuditRecord) -> AuditEntry {
        self.outlet.shared.written.fetch_add(1, Ordering::Relaxed);
        AuditEntry::Record(record)
    }
}
