//! One record for each operation, however it ends, and none that is lost unseen.

mod crowd;
mod endings;
mod fields;
mod lines;
mod order;
mod places;
mod secrets;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use toolstack::layer::{
    AuditLayer,
    audit::{AuditEntry, AuditReceiver, AuditRecord, channel},
};

/// A layer that records to a channel with room enough.
fn audit() -> (AuditLayer, AuditReceiver) {
    let (sink, receiver) = channel(100_000);
    (AuditLayer::new(sink), receiver)
}

/// All records that are there; no loss is.
fn records(receiver: &mut AuditReceiver) -> Vec<AuditRecord> {
    std::iter::from_fn(|| receiver.try_recv())
        .map(|entry| match entry {
            AuditEntry::Record(record) => record,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// The one record that is there.
#[track_caller]
fn one(receiver: &mut AuditReceiver) -> AuditRecord {
    let mut all = records(receiver);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Counts something.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn up(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// What a writer wrote.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn entries(&self) -> Vec<AuditEntry> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
    }
}

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
