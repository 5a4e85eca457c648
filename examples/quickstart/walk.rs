//! Goes through a directory and what is within it, within bounds.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use toolstack::{model::Cancellation, tool::ToolError};

use super::confined::{Confined, Entry};

/// How many entries one walk looks at.
pub(crate) const ENTRIES: usize = 20_000;
/// How deep it goes.
const DEPTH: usize = 16;

/// How a walk ended.
pub(crate) struct Walked {
    /// Why it ended before everything was seen.
    pub(crate) stopped: Option<String>,
    /// Directories that could not be read.
    pub(crate) unreadable: usize,
}

impl Confined {
    /// Shows every file beneath `start` to `visit`, in the order of their names. Links are not followed.
    ///
    /// Unless `all` is set, hidden directories are left out, and directories that say of themselves that they are caches.
    pub(crate) fn walk(
        &self,
        start: &Path,
        all: bool,
        cancellation: &Cancellation,
        mut visit: impl FnMut(&Path, &Entry) -> ControlFlow<String>,
    ) -> Result<Walked, ToolError> {
        let mut walked = Walked { stopped: None, unreadable: 0 };
        let mut seen = 0;
        let mut waiting = vec![(start.to_owned(), 0)];
        while let Some((directory, depth)) = waiting.pop() {
            // Nobody waits for the answer of a call that ran out of time.
            if cancellation.is_cancelled() {
                return Err(ToolError::new("the call was cancelled"));
            }
            let (entries, more) = match self.entries(&directory, ENTRIES - seen) {
                Ok(entries) => entries,
                Err(error) if depth == 0 => return Err(error),
                Err(_) => {
                    walked.unreadable += 1;
                    continue;
                }
            };
            seen += entries.len();
            let mut within = Vec::new();
            for entry in entries {
                let path = if directory == Path::new(".") { PathBuf::from(&entry.name) } else { directory.join(&entry.name) };
                match entry.kind {
                    "directory" if !all && self.is_left_out(&path, &entry) => {}
                    "directory" if depth == DEPTH => walked.stopped = Some(format!("what lies deeper than {DEPTH} is left out")),
                    "directory" => within.push((path, depth + 1)),
                    _ => {
                        if let ControlFlow::Break(why) = visit(&path, &entry) {
                            walked.stopped = Some(why);
                            return Ok(walked);
                        }
                    }
                }
            }
            if more || seen == ENTRIES {
                walked.stopped = Some(format!("stopped after {ENTRIES} entries"));
                return Ok(walked);
            }
            waiting.extend(within.into_iter().rev());
        }
        Ok(walked)
    }

    fn is_left_out(&self, path: &Path, entry: &Entry) -> bool {
        entry.name.as_encoded_bytes().starts_with(b".") || self.dir().symlink_metadata(path.join("CACHEDIR.TAG")).is_ok()
    }
}
