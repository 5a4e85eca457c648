use std::borrow::Cow;

use super::AuditRecord;

/// Where records go. Any closure over a record is one.
///
/// It is called on the way out of each operation, by whoever polls or drops it: it must not block. What takes time belongs behind a queue,
/// as in [`JsonLines`](super::JsonLines) and [`channel`](super::channel()). A panic of it is caught, counted and logged.
pub trait AuditSink: Send + Sync + 'static {
    /// A name for [`describe`](crate::describe).
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("custom")
    }

    /// Takes a record. One that it has no room for is lost, and it is the sink's to count it.
    fn record(&self, record: &AuditRecord);

    /// Keeps a place for one record. `false`, if there is none; where the layer is [required](super::AuditLayer::required), the request
    /// is refused then.
    fn reserve(&self) -> bool {
        true
    }

    /// Takes a record that nobody else needs, with or without a place for it.
    #[doc(hidden)]
    fn take(&self, record: AuditRecord, reserved: bool) {
        if reserved { self.record_reserved(&record) } else { self.record(&record) }
    }

    /// Takes the record that a place was kept for. There is exactly one for each.
    fn record_reserved(&self, record: &AuditRecord) {
        self.record(record);
    }
}

impl<F: Fn(&AuditRecord) + Send + Sync + 'static> AuditSink for F {
    fn record(&self, record: &AuditRecord) {
        self(record);
    }
}
