use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::lines::Out;

/// A file for [`JsonLines`](super::JsonLines), and the files that it becomes: when it is full or old, `audit.jsonl` is renamed to
/// `audit.jsonl.1`, what had that name to `audit.jsonl.2`, and so on; the oldest one beyond the bound is removed.
///
/// One process writes to it. A file that is there already is continued.
#[derive(Clone, Debug)]
#[must_use]
pub struct AuditFile {
    path: PathBuf,
    max_bytes: u64,
    max_age: Option<Duration>,
    max_files: usize,
    sync: bool,
    mode: u32,
    clock: fn() -> SystemTime,
}

impl AuditFile {
    /// How many bytes a file has at most, unless [`max_bytes`](Self::max_bytes) says otherwise: 64 MiB.
    pub const MAX_BYTES: u64 = 64 * 1024 * 1024;

    /// How many files there are at most, unless [`max_files`](Self::max_files) says otherwise.
    pub const MAX_FILES: usize = 16;

    /// A file at this path. Its directory has to be there.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            max_bytes: Self::MAX_BYTES,
            max_age: None,
            max_files: Self::MAX_FILES,
            sync: false,
            mode: 0o600,
            clock: SystemTime::now,
        }
    }

    /// Sets how many bytes a file has at most; a line that is longer has a file of its own.
    pub const fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets how old a file gets: the first record after that begins a new one.
    pub const fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// Sets how many files there are at most, the one that is written included; at least one.
    pub const fn max_files(mut self, files: usize) -> Self {
        self.max_files = files;
        self
    }

    /// Has each batch of records on the disk, and not only with the system, before it counts as written.
    pub const fn sync(mut self) -> Self {
        self.sync = true;
        self
    }

    /// Sets who may read the files, where the system knows such modes: `0o600`, their owner alone, if nothing is said. A file that is there
    /// already gets it too.
    pub const fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{number}"));
        path.into()
    }

    fn open(&self) -> io::Result<Current> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, self.mode);
        let mut file = options.open(&self.path)?;
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(self.mode))?;
        let metadata = file.metadata()?;
        let mut size = metadata.len();
        if size > 0 && !ends_a_line(&mut file)? {
            // Somebody was interrupted. What comes is a line of its own.
            file.write_all(b"\n")?;
            size += 1;
        }
        let since = if size > 0 { metadata.created().or_else(|_| metadata.modified()) } else { Ok((self.clock)()) };
        Ok(Current { file, size, since: since.unwrap_or_else(|_| (self.clock)()) })
    }

    /// Makes room for a new file.
    fn shift(&self) -> io::Result<()> {
        let kept = self.max_files.max(1) - 1;
        if kept == 0 {
            return gone(fs::remove_file(&self.path));
        }
        gone(fs::remove_file(self.numbered(kept)))?;
        for number in (1..kept).rev() {
            gone(fs::rename(self.numbered(number), self.numbered(number + 1)))?;
        }
        gone(fs::rename(&self.path, self.numbered(1)))?;
        if self.sync { sync_directory(&self.path) } else { Ok(()) }
    }
}

/// A file that is not there need not be moved.
fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn ends_a_line(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(unix)]
fn sync_directory(of: &Path) -> io::Result<()> {
    let directory = of.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

struct Current {
    file: File,
    size: u64,
    since: SystemTime,
}

/// The files, as they are written.
pub(super) struct Rotating {
    settings: AuditFile,
    current: Option<Current>,
    buffer: Vec<u8>,
}

impl Rotating {
    /// How much is kept before it is written, at most, and a line.
    const BUFFER: usize = 64 * 1024;

    pub(super) fn open(settings: AuditFile) -> io::Result<Self> {
        let current = Some(settings.open()?);
        Ok(Self { settings, current, buffer: Vec::new() })
    }

    fn write(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let current = match &mut self.current {
            Some(current) => current,
            none => none.insert(self.settings.open()?),
        };
        current.file.write_all(&self.buffer)?;
        current.size += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Whether one more line of this length belongs into a new file.
    fn is_over(&self, line: usize) -> bool {
        let Some(current) = &self.current else { return false };
        let size = current.size + self.buffer.len() as u64;
        let age = (self.settings.clock)().duration_since(current.since).unwrap_or_default();
        size > 0 && (size + line as u64 > self.settings.max_bytes || self.settings.max_age.is_some_and(|max| age >= max))
    }
}

impl Out for Rotating {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.current.is_none() {
            self.current = Some(self.settings.open()?);
        }
        if self.is_over(line.len()) {
            self.flush()?;
            self.current = None;
            self.settings.shift()?;
            self.current = Some(self.settings.open()?);
        }
        self.buffer.extend_from_slice(line);
        if self.buffer.len() >= Self::BUFFER { self.write() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write()?;
        match &self.current {
            Some(current) if self.settings.sync => current.file.sync_data(),
            _ => Ok(()),
        }
    }

    fn reset(&mut self) {
        self.buffer.clear();
        self.current = None;
    }
}

#[cfg(test)]
mod tests;
