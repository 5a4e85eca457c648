use std::{
    borrow::Cow,
    fmt,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
    thread,
};

use super::{
    AuditEntry, AuditFile, AuditHandle, AuditRecord, AuditSink,
    file::Rotating,
    queue::{Item, Outlet, Queue, queue},
};

/// Records as JSON, one a line, written by a thread of their own.
///
/// The stack never waits for it: records wait in a bounded queue, and those that find no room are lost and counted. A write that fails is
/// counted and logged, and the next one begins anew. Wherever records are missing, a line such as `{"lost":3}` stands in their place.
///
/// The thread ends, and has written everything, once the last stack with the sink is dropped; [`AuditHandle::closed`] waits for that.
#[must_use = "nothing is written before it is started"]
pub struct JsonLines {
    out: Box<dyn FnOnce() -> io::Result<Box<dyn Out>> + Send>,
    capacity: usize,
}

/// The sink of [`JsonLines`] that is [started](JsonLines::start).
#[derive(Clone, Debug)]
pub struct JsonLinesSink {
    queue: Queue,
}

/// Where lines go.
pub(super) trait Out: Send {
    /// Takes a line, with its end. It may be kept until the next flush.
    fn line(&mut self, line: &[u8]) -> io::Result<()>;

    /// Writes what was kept.
    fn flush(&mut self) -> io::Result<()>;

    /// Begins anew after an error: what was kept is given up.
    fn reset(&mut self);
}

impl JsonLines {
    /// How many records wait at most, unless [`capacity`](Self::capacity) says otherwise.
    pub const CAPACITY: usize = 8 * 1024;

    /// Lines go into this file, and into the ones that follow when it is full or old.
    pub fn to_file(file: AuditFile) -> Self {
        Self::to(move || Ok(Box::new(Rotating::open(file)?)))
    }

    /// Lines go there. It is flushed when no more wait, and may take its time.
    pub fn to_writer(writer: impl Write + Send + 'static) -> Self {
        Self::to(move || Ok(Box::new(Plain { writer, after_error: false })))
    }

    fn to(out: impl FnOnce() -> io::Result<Box<dyn Out>> + Send + 'static) -> Self {
        Self { out: Box::new(out), capacity: Self::CAPACITY }
    }

    /// Sets how many records wait at most: each takes about half a kilobyte.
    pub const fn capacity(mut self, records: usize) -> Self {
        self.capacity = records;
        self
    }

    /// Opens the file, and starts the thread.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or there can be no more threads.
    pub fn start(self) -> io::Result<JsonLinesSink> {
        let (queue, outlet) = queue("json_lines", self.capacity);
        let out = (self.out)()?;
        let writer = Writer { outlet, out, line: Vec::new(), pending: 0, pending_gap: 0, missed: 0 };
        thread::Builder::new().name("toolstack-audit".to_owned()).spawn(move || writer.run())?;
        Ok(JsonLinesSink { queue })
    }
}

impl JsonLinesSink {
    /// What counts, flushes, and waits for the end.
    #[must_use]
    pub fn handle(&self) -> AuditHandle {
        self.queue.handle()
    }
}

impl AuditSink for JsonLinesSink {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.queue.name())
    }

    fn record(&self, record: &AuditRecord) {
        self.queue.push(record.clone());
    }

    /// None while writing fails. The record of the refusal is what finds out that it works again.
    fn reserve(&self) -> bool {
        !self.queue.is_failing() && self.queue.reserve()
    }

    fn record_reserved(&self, record: &AuditRecord) {
        self.queue.push_reserved(record.clone());
    }

    fn take(&self, record: AuditRecord, reserved: bool) {
        if reserved { self.queue.push_reserved(record) } else { self.queue.push(record) }
    }
}

/// The thread's side.
struct Writer {
    outlet: Outlet,
    out: Box<dyn Out>,
    line: Vec<u8>,
    /// Records, and gaps, in lines that are not flushed yet.
    pending: u64,
    pending_gap: u64,
    /// What is missing in the lines since the last one that is known to be there.
    missed: u64,
}

impl Writer {
    /// How many records are written before a flush, however many wait.
    const BATCH: usize = 512;

    fn run(mut self) {
        while let Some(item) = self.outlet.next_blocking() {
            let mut waiting = Vec::new();
            let mut next = Some(item);
            for _ in 0..Self::BATCH {
                match next {
                    Some(Item::Record(gap, record)) => self.record(gap, record),
                    Some(Item::Flush(told)) => waiting.push(told),
                    None => break,
                }
                next = self.outlet.next_now();
            }
            let overdue = next;
            if overdue.is_none() {
                // With no record after it to say so.
                self.gap(self.outlet.shared.take_gap());
            }
            self.flush();
            for told in waiting {
                // Whoever waited may have gone.
                let _ = told.send(());
            }
            match overdue {
                Some(Item::Record(gap, record)) => self.record(gap, record),
                Some(Item::Flush(told)) => drop(told.send(())),
                None => {}
            }
        }
        self.gap(self.outlet.shared.take_gap());
        self.flush();
    }

    fn record(&mut self, gap: u64, record: AuditRecord) {
        self.gap(gap);
        self.pending += 1;
        self.write(&AuditEntry::Record(record));
    }

    /// Says what is missing at this place, where something is.
    fn gap(&mut self, lost: u64) {
        let missed = std::mem::take(&mut self.missed) + lost;
        if missed > 0 {
            self.pending_gap += missed;
            self.write(&AuditEntry::lost(missed));
        }
    }

    fn write(&mut self, entry: &AuditEntry) {
        self.line.clear();
        let written = serde_json::to_writer(&mut self.line, entry).map_err(io::Error::from);
        self.line.push(b'\n');
        let written = written.and_then(|()| {
            let (out, line) = (&mut self.out, &self.line);
            caught(|| out.line(line))
        });
        self.check(written);
    }

    fn flush(&mut self) {
        if self.pending == 0 && self.pending_gap == 0 {
            return;
        }
        let out = &mut self.out;
        let flushed = caught(|| out.flush());
        if self.check(flushed) {
            self.outlet.shared.written.fetch_add(self.pending, Ordering::Relaxed);
            (self.pending, self.pending_gap) = (0, 0);
            if self.outlet.shared.failing.swap(false, Ordering::AcqRel) {
                tracing::info!("audit: records are written again");
            }
        }
    }

    fn check(&mut self, result: io::Result<()>) -> bool {
        let Err(error) = result else { return true };
        self.outlet.shared.failed.fetch_add(self.pending, Ordering::Relaxed);
        self.missed += std::mem::take(&mut self.pending) + std::mem::take(&mut self.pending_gap);
        if !self.outlet.shared.failing.swap(true, Ordering::AcqRel) {
            tracing::error!(%error, "audit: records cannot be written");
        }
        let out = &mut self.out;
        let reset = caught(|| {
            out.reset();
            Ok(())
        });
        drop(reset);
        false
    }
}

/// A writer of somebody else's may panic.
fn caught(work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
}

/// Any writer.
struct Plain<W> {
    writer: W,
    after_error: bool,
}

impl<W: Write + Send> Out for Plain<W> {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.after_error {
            // A part of a line may have been written.
            self.writer.write_all(b"\n")?;
            self.after_error = false;
        }
        self.writer.write_all(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    fn reset(&mut self) {
        self.after_error = true;
    }
}

impl fmt::Debug for JsonLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonLines").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}
