//! A directory that no path leads out of. Every tool reads and writes through here.
//!
//! `cap-std` refuses `..` beyond the root, absolute paths and links that lead outside, without a gap between check and use. What is left to
//! do is to bound sizes, to leave alone what is no regular file, and to say in words for the model what went wrong.

use std::{
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::{
    ambient_authority,
    fs::{Dir, File, FileType, Metadata, OpenOptions},
};
use toolstack::tool::ToolError;

/// The longest path that is looked at, in bytes.
const LONGEST_PATH: usize = 4096;

#[derive(Clone)]
pub(crate) struct Confined {
    dir: Arc<Dir>,
}

/// One entry of a directory.
pub(crate) struct Entry {
    pub(crate) name: std::ffi::OsString,
    pub(crate) kind: &'static str,
    pub(crate) bytes: Option<u64>,
}

/// A part of a text file.
pub(crate) struct Part {
    pub(crate) text: String,
    /// Where the file goes on; `None` at its end.
    pub(crate) next: Option<u64>,
    /// How long the whole file is.
    pub(crate) whole: u64,
}

impl Confined {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { dir: Arc::new(Dir::open_ambient_dir(path, ambient_authority())?) })
    }

    /// The directory itself, for what has no words for the model.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// What `path` is; a link within is followed.
    pub(crate) fn metadata(&self, path: &Path) -> Result<Metadata, ToolError> {
        self.dir.metadata(path).map_err(|error| told(path, error))
    }

    /// The entries of a directory by name, at most `limit` of them, and whether there are more.
    pub(crate) fn entries(&self, path: &Path, limit: usize) -> Result<(Vec<Entry>, bool), ToolError> {
        let mut entries = Vec::new();
        let mut more = false;
        for entry in self.dir.read_dir(path).map_err(|error| told(path, error))? {
            if entries.len() == limit {
                more = true;
                break;
            }
            let entry = entry.map_err(|error| told(path, error))?;
            // What goes away while it is looked at shows without a size.
            let kind = entry.file_type().map_or("unreadable", kind);
            let bytes = (kind == "file").then(|| entry.metadata().ok().map(|metadata| metadata.len())).flatten();
            entries.push(Entry { name: entry.file_name(), kind, bytes });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((entries, more))
    }

    /// Opens a regular file, and nothing else: to open a FIFO would wait for a writer, to open a device may do anything.
    pub(crate) fn open_file(&self, path: &Path) -> Result<(File, u64), ToolError> {
        regular(path, self.metadata(path)?.file_type())?;
        let file = self.dir.open_with(path, OpenOptions::new().read(true).nonblock(true)).map_err(|error| told(path, error))?;
        // Once more, on what was opened: the name may have come to mean something else in between.
        let metadata = file.metadata().map_err(|error| told(path, error))?;
        regular(path, metadata.file_type())?;
        Ok((file, metadata.len()))
    }

    /// Reads text of at most `limit` bytes from `offset` on.
    pub(crate) fn read_text(&self, path: &Path, offset: u64, limit: usize) -> Result<Part, ToolError> {
        let (mut file, whole) = self.open_file(path)?;
        if offset > whole && (whole > 0 || i64::try_from(offset).is_err()) {
            return Err(ToolError::new(format!("`offset` is {offset}, but {} has only {whole} bytes", shown(path))));
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(offset)).map_err(|error| told(path, error))?;
        file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| told(path, error))?;
        let more = bytes.len() > limit;
        bytes.truncate(limit);

        // An offset in the middle of a character begins with the next one.
        let skipped = if offset == 0 { 0 } else { bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count() };
        let bytes = &bytes[skipped..];
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            // Cut within a character: the rest of it belongs to the next part.
            Err(error) if more && error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
            Err(error) => return Err(not_text(path, offset + (skipped + error.valid_up_to()) as u64)),
        };
        if let Some(at) = text.find('\0') {
            return Err(not_text(path, offset + (skipped + at) as u64));
        }
        let next = more.then_some(offset + (skipped + text.len()) as u64);
        Ok(Part { text: text.to_owned(), next, whole })
    }

    /// Writes a file as a whole: a new one, or with `overwrite` one in the place of a regular file.
    pub(crate) fn write(&self, path: &Path, content: &str, overwrite: bool) -> Result<(), ToolError> {
        let old = match self.dir.symlink_metadata(path) {
            Ok(old) => Some(old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(told(path, error)),
        };
        if let Some(old) = &old {
            regular(path, old.file_type())?;
            if !overwrite {
                return Err(ToolError::new(format!("{} exists; pass `overwrite: true` to replace it", shown(path))));
            }
        }
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            // `new/..` is refused only once `new` is there, which would leave it behind.
            if parent.components().any(|part| part == Component::ParentDir) {
                self.dir.metadata(parent).map_err(|error| told(path, error))?;
            }
            self.dir.create_dir_all(parent).map_err(|error| told(path, error))?;
        }
        // A file that is replaced is replaced at once, and never half written.
        let made = if old.is_some() { beside(path) } else { path.to_owned() };
        let mut file = self.dir.open_with(&made, OpenOptions::new().write(true).create_new(true)).map_err(|error| told(path, error))?;
        let written = file.write_all(content.as_bytes()).and_then(|()| match old {
            Some(old) => file.set_permissions(old.permissions()).and_then(|()| self.dir.rename(&made, &self.dir, path)),
            None => Ok(()),
        });
        written.map_err(|error| {
            let _ = self.dir.remove_file(&made);
            told(path, error)
        })
    }
}

/// A name beside `path`, for what is to take its place.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    path.with_file_name(name)
}

/// A path as a model wrote it, if it can be one at all.
pub(crate) fn checked(path: &str) -> Result<&Path, ToolError> {
    if path.is_empty() {
        return Err(ToolError::new("`path` is empty; `.` is the directory itself"));
    }
    if path.len() > LONGEST_PATH {
        return Err(ToolError::new(format!("`path` is {} bytes long; at most {LONGEST_PATH} are allowed", path.len())));
    }
    if path.contains('\0') {
        return Err(ToolError::new("`path` holds a NUL character, which no path can"));
    }
    Ok(Path::new(path))
}

/// What kind of thing it is, in a word.
pub(crate) fn kind(of: FileType) -> &'static str {
    match of {
        of if of.is_file() => "file",
        of if of.is_dir() => "directory",
        of if of.is_symlink() => "link",
        _ => "special",
    }
}

/// A path in a message, on one line and not too long.
fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let cut: String = text.chars().take(100).flat_map(char::escape_debug).collect();
    if text.chars().nth(100).is_some() { format!("`{cut}…`") } else { format!("`{cut}`") }
}

fn regular(path: &Path, of: FileType) -> Result<(), ToolError> {
    match kind(of) {
        "file" => Ok(()),
        "directory" => Err(ToolError::new(format!("{} is a directory; list_dir lists it", shown(path)))),
        "link" => Err(ToolError::new(format!("{} is a link; only regular files are written", shown(path)))),
        _ => Err(ToolError::new(format!("{} is a FIFO, a device or a socket; only regular files are opened", shown(path)))),
    }
}

fn not_text(path: &Path, at: u64) -> ToolError {
    ToolError::new(format!("{} is not text: byte {at} is no part of UTF-8 text", shown(path)))
}

/// What went wrong, in words for the model. The error itself is for the operator.
pub(crate) fn told(path: &Path, error: io::Error) -> ToolError {
    // The system's own "permission denied" has a number; that of `cap-std` has none.
    let outside = error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none();
    let what = match error.kind() {
        _ if outside => "leads outside of the directory that the tools may use",
        io::ErrorKind::AlreadyExists => "exists already",
        io::ErrorKind::InvalidFilename => "has a name that is too long or not allowed",
        io::ErrorKind::NotADirectory => "is no directory, or goes through something that is none",
        io::ErrorKind::NotFound => "does not exist",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "may not be used: permission denied",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "cannot be written: the disk is full",
        _ => "cannot be used",
    };
    ToolError::new(format!("{} {what}", shown(path))).with_source(error)
}
