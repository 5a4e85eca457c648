use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// A directory that is gone in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("toolstack-audit-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> AuditFile {
        AuditFile::new(self.0.join("audit.jsonl"))
    }

    /// What the files hold, by name.
    fn files(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> =
            entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())).collect();
        files.sort();
        files
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(out: &mut Rotating, lines: &[&str]) {
    for line in lines {
        out.line(format!("{line}\n").as_bytes()).unwrap();
    }
    out.flush().unwrap();
}

fn named(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_full_file_is_followed_by_another_and_the_oldest_goes() {
    let scratch = Scratch::new();
    let mut out = Rotating::open(scratch.file().max_bytes(8).max_files(3)).unwrap();
    write(&mut out, &["1", "2", "3", "4"]);
    assert_eq!(scratch.files(), named(&[("audit.jsonl", "1\n2\n3\n4\n")]), "eight bytes are not too many");
    write(&mut out, &["5", "a line of its own", "6"]);
    let three = [("audit.jsonl", "6\n"), ("audit.jsonl.1", "a line of its own\n"), ("audit.jsonl.2", "5\n")];
    assert_eq!(scratch.files(), named(&three));

    let one = Scratch::new();
    let mut out = Rotating::open(one.file().max_bytes(4).max_files(0)).unwrap();
    write(&mut out, &["1", "2", "3"]);
    assert_eq!(one.files(), named(&[("audit.jsonl", "3\n")]));
}

#[test]
fn an_old_file_is_followed_by_another() {
    static NOW: AtomicU64 = AtomicU64::new(1_000_000_000);
    let scratch = Scratch::new();
    let mut file = scratch.file().max_age(Duration::from_secs(60)).sync();
    file.clock = || SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.load(Ordering::Relaxed));
    let mut out = Rotating::open(file).unwrap();
    write(&mut out, &["1"]);
    NOW.fetch_add(59, Ordering::Relaxed);
    write(&mut out, &["2"]);
    NOW.fetch_add(1, Ordering::Relaxed);
    write(&mut out, &["3"]);
    // A clock that is set back makes nothing old.
    NOW.fetch_sub(1000, Ordering::Relaxed);
    write(&mut out, &["4"]);
    assert_eq!(scratch.files(), named(&[("audit.jsonl", "3\n4\n"), ("audit.jsonl.1", "1\n2\n")]));
}

#[test]
fn a_file_that_is_there_is_continued_on_a_line_of_its_own() {
    let scratch = Scratch::new();
    fs::write(scratch.0.join("audit.jsonl"), "whole\n{\"cut off").unwrap();
    let mut out = Rotating::open(scratch.file().max_bytes(24)).unwrap();
    write(&mut out, &["next"]);
    assert_eq!(scratch.files(), named(&[("audit.jsonl", "whole\n{\"cut off\nnext\n")]));
    write(&mut out, &["one more"]);
    assert_eq!(scratch.files().len(), 2, "what was there counts");
}

#[cfg(unix)]
#[test]
fn files_are_their_owner_s_alone_unless_it_is_said_otherwise() {
    use std::os::unix::fs::PermissionsExt;

    let scratch = Scratch::new();
    let path = scratch.0.join("audit.jsonl");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let mut out = Rotating::open(scratch.file().max_bytes(1)).unwrap();
    write(&mut out, &["1", "2"]);
    assert_eq!((mode(&path), mode(&scratch.0.join("audit.jsonl.1"))), (0o600, 0o600));
    drop(Rotating::open(scratch.file().mode(0o640)).unwrap());
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn after_an_error_the_file_is_opened_again() {
    let scratch = Scratch::new();
    let mut out = Rotating::open(scratch.file()).unwrap();
    write(&mut out, &["1"]);
    fs::remove_dir_all(&scratch.0).unwrap();
    out.reset();
    assert!(out.line(b"2\n").is_err());
    out.reset();
    fs::create_dir_all(&scratch.0).unwrap();
    write(&mut out, &["3"]);
    assert_eq!(scratch.files(), named(&[("audit.jsonl", "3\n")]));
}
