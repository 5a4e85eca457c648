//! JSON lines: written by a thread, however slow or broken what it writes to is.

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use serde_json::json;
use toolstack::{
    Router, StackExt,
    layer::{
        AuditLayer,
        audit::{AuditEntry, AuditFile, JsonLines},
    },
    testing::Probe,
};
use tower::Layer;

use super::Written;

fn router() -> Router {
    Router::new().tool(Probe::new().tool("probe"))
}

fn told(entries: &[AuditEntry]) -> Vec<Result<u64, u64>> {
    entries
        .iter()
        .map(|entry| match entry {
            AuditEntry::Record(record) => Ok(record.sequence),
            AuditEntry::Lost(loss) => Err(loss.lost),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[tokio::test]
async fn each_record_is_a_line_once_it_is_flushed_and_all_are_at_the_end() {
    let written = Written::default();
    let sink = JsonLines::to_writer(written.clone()).start().unwrap();
    let handle = sink.handle();
    let stack = AuditLayer::new(sink).layer(router());
    stack.call_tool("probe", json!({ "text": "a\nb" })).await;
    handle.flush().await;
    assert_eq!((written.text().lines().count(), handle.written(), handle.queued()), (1, 1, 0));
    stack.call_tool("a\nb", json!({})).await;
    stack.list_tools().await;
    drop(stack);
    handle.closed().await;
    assert_eq!(told(&written.entries()), [Ok(0), Ok(1), Ok(2)]);
    assert_eq!((handle.written(), handle.lost(), handle.failed()), (3, 0, 0));
    handle.flush().await;
}

/// Waits, at each write, until the test lets it go on.
struct Slow {
    out: Written,
    go_on: mpsc::Receiver<()>,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.go_on.recv();
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_writer_that_hangs_holds_no_call_up_and_what_is_lost_meanwhile_is_in_the_lines() {
    let written = Written::default();
    let (release, go_on) = mpsc::channel();
    let sink = JsonLines::to_writer(Slow { out: written.clone(), go_on }).capacity(4).start().unwrap();
    let handle = sink.handle();
    let stack = AuditLayer::new(sink).layer(router());
    for _ in 0..50 {
        assert!(stack.call_tool("probe", json!({})).await.is_completed());
    }
    let lost = handle.lost();
    assert!((45..=46).contains(&lost), "at most four wait, and one is being written: {lost}");
    drop(release);
    handle.flush().await;
    stack.call_tool("probe", json!({})).await;
    drop(stack);
    handle.closed().await;

    let entries = told(&written.entries());
    let in_lines: u64 = entries.iter().filter_map(|entry| entry.err()).sum();
    assert_eq!(in_lines, lost);
    // Each gap of the numbers is told where it is.
    let mut next = 0;
    for entry in &entries {
        match entry {
            Ok(sequence) => {
                assert_eq!(*sequence, next, "{entries:?}");
                next += 1;
            }
            Err(lost) => next += lost,
        }
    }
    assert_eq!((next, handle.written() + lost), (51, 51));
}

/// Fails, or panics, while it is broken. A write that fails may have written a part.
#[derive(Clone)]
struct Broken {
    out: Written,
    broken: Arc<AtomicBool>,
    panics: bool,
    at_flush: bool,
}

impl Broken {
    fn check(&self) -> io::Result<()> {
        let broken = self.broken.load(Ordering::SeqCst);
        assert!(!(broken && self.panics), "as it was told to");
        if broken { Err(io::Error::other("the disk is full")) } else { Ok(()) }
    }
}

impl Write for Broken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.at_flush {
            if self.broken.load(Ordering::SeqCst) {
                self.out.write_all(&bytes[..bytes.len() / 2])?;
            }
            self.check()?;
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.at_flush { self.check() } else { Ok(()) }
    }
}

#[tokio::test]
async fn a_write_that_fails_is_counted_and_told_in_the_lines_and_the_next_one_begins_anew() {
    for (panics, at_flush) in [(false, false), (true, false), (false, true), (true, true)] {
        let (out, broken) = (Written::default(), Arc::new(AtomicBool::new(false)));
        let sink = JsonLines::to_writer(Broken { out: out.clone(), broken: broken.clone(), panics, at_flush }).start().unwrap();
        let handle = sink.handle();
        let stack = AuditLayer::new(sink).layer(router());
        let call = async || {
            assert!(stack.call_tool("probe", json!({})).await.is_completed());
            handle.flush().await;
        };
        call().await;
        broken.store(true, Ordering::SeqCst);
        call().await;
        call().await;
        assert_eq!((handle.written(), handle.failed()), (1, 2));
        broken.store(false, Ordering::SeqCst);
        call().await;
        assert_eq!((handle.written(), handle.failed(), handle.lost()), (2, 2, 0));
        let whole: Vec<AuditEntry> = out.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let told = told(&whole);
        assert!(told.starts_with(&[Ok(0)]) && told.ends_with(&[Err(2), Ok(3)]), "{told:?}");
    }
}

#[tokio::test]
async fn required_runs_nothing_while_writing_fails_and_goes_on_once_it_works_again() {
    let (out, broken) = (Written::default(), Arc::new(AtomicBool::new(false)));
    let sink = JsonLines::to_writer(Broken { out: out.clone(), broken: broken.clone(), panics: false, at_flush: true }).start().unwrap();
    let handle = sink.handle();
    let probe = Probe::new();
    let stack = AuditLayer::new(sink).required().layer(Router::new().tool(probe.tool("probe")));
    let call = async || {
        stack.call_tool("probe", json!({})).await;
        handle.flush().await;
        (probe.runs(), handle.is_failing())
    };
    assert_eq!(call().await, (1, false));
    broken.store(true, Ordering::SeqCst);
    assert_eq!(call().await, (2, true), "nobody knew yet");
    assert_eq!((call().await, call().await), ((2, true), (2, true)));
    broken.store(false, Ordering::SeqCst);
    assert_eq!(call().await, (2, false), "its record is the first one that is written");
    assert_eq!(call().await, (3, false));
    assert_eq!((handle.failed(), handle.written(), handle.queued()), (3, 3, 0));
}

#[tokio::test]
async fn a_file_holds_the_lines_and_is_followed_by_others() {
    let directory = Scratch::new("lines");
    let file = AuditFile::new(directory.0.join("audit.jsonl")).max_bytes(2000).max_files(100).sync();
    let sink = JsonLines::to_file(file).start().unwrap();
    let handle = sink.handle();
    let stack = AuditLayer::new(sink).layer(router());
    for _ in 0..20 {
        stack.call_tool("probe", json!({})).await;
    }
    drop(stack);
    handle.closed().await;
    let mut sequences = Vec::new();
    for entry in std::fs::read_dir(&directory.0).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(text.len() <= 2000);
        let entries: Vec<AuditEntry> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        sequences.extend(told(&entries).into_iter().map(Result::unwrap));
    }
    sequences.sort_unstable();
    assert_eq!(sequences, (0..20).collect::<Vec<_>>());
    assert!(std::fs::read_dir(&directory.0).unwrap().count() > 3);
}

#[tokio::test]
async fn a_directory_that_is_gone_is_counted_and_once_it_is_back_the_lines_go_on() {
    let directory = Scratch::new("gone");
    let path = directory.0.join("logs/audit.jsonl");
    let missing = JsonLines::to_file(AuditFile::new(&path)).start();
    assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);

    std::fs::create_dir(directory.0.join("logs")).unwrap();
    let sink = JsonLines::to_file(AuditFile::new(&path).max_bytes(1)).start().unwrap();
    let handle = sink.handle();
    let stack = AuditLayer::new(sink).layer(router());
    let call = async || {
        stack.call_tool("probe", json!({})).await;
        handle.flush().await;
    };
    call().await;
    std::fs::remove_dir_all(directory.0.join("logs")).unwrap();
    call().await;
    assert_eq!((handle.written(), handle.failed()), (1, 1));
    std::fs::create_dir(directory.0.join("logs")).unwrap();
    call().await;
    assert_eq!((handle.written(), handle.failed()), (2, 1));
    let first = std::fs::read_to_string(directory.0.join("logs/audit.jsonl.1")).unwrap();
    assert_eq!(first, "{\"lost\":1}\n");
}

/// A directory that is gone in the end.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        static ONE_BY_ONE: Mutex<u32> = Mutex::new(0);
        let mut number = ONE_BY_ONE.lock().unwrap();
        *number += 1;
        let path = std::env::temp_dir().join(format!("toolstack-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
