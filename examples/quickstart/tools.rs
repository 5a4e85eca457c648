//! The tools: what they take, what they answer, and how much of it.

#![allow(clippy::needless_pass_by_value, reason = "a tool function takes what it takes by value")]

use std::{
    fmt::Write as _,
    io::Read,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolstack::{
    Refusal, RefusalKind, Router, ServiceBuilderExt, ToolCall,
    layer::named,
    model::{Cancellation, Content},
    tool::{Json, State, ToolError, blocking_tool_fn_with_state, sync_tool_fn, tool_fn},
};
use tower::{ServiceBuilder, limit::ConcurrencyLimitLayer};

use super::confined::{Confined, checked};

/// How many entries `list_dir` gives at once, and how many it looks at.
const LISTED: usize = 200;
const LISTED_OF: usize = 10_000;
/// How many bytes `read_file` gives at once.
const READ: usize = 64 * 1024;
/// How many matches `search` gives, how long a line of it may be, and how much it reads: of one file, and of all.
const MATCHES: usize = 100;
const MATCHED_LINE: usize = 200;
const SEARCHED_FILE: u64 = 1024 * 1024;
const SEARCHED: u64 = 64 * SEARCHED_FILE;
/// How long the arguments of `write_file` may be.
const WRITTEN: usize = 256 * 1024;

/// What `demo_panic` panics with.
pub(crate) const DEMO_PANIC: &str = "demo_panic panicked, as its name says";

/// All tools. Those that read a disk block, so they run on threads where they may.
pub(crate) fn tools(dir: &Confined) -> Router {
    Router::new()
        .tool(
            blocking_tool_fn_with_state("list_dir", dir.clone(), list_dir)
                .describe("Lists a directory by name, 200 entries at a time.")
                .read_only()
                .open_world(false),
        )
        .tool(
            blocking_tool_fn_with_state("read_file", dir.clone(), read_file)
                .describe("Reads a text file, 64 KiB at a time.")
                .read_only()
                .open_world(false),
        )
        .tool(
            blocking_tool_fn_with_state("search", dir.clone(), search)
                .describe("Finds the lines of text files that contain a text. Hidden directories and caches are left out.")
                .read_only()
                .open_world(false),
        )
        .tool(
            blocking_tool_fn_with_state("write_file", dir.clone(), write_file)
                .describe("Writes a text file as a whole, and the directories that it is in.")
                .destructive()
                .idempotent()
                .open_world(false)
                // Layers of its own: a rule, and tower's limit, so that one write is over before the next begins.
                .layer(
                    ServiceBuilder::new()
                        .gate("write_limit", small_enough)
                        .layer(named("concurrency_limit", ConcurrencyLimitLayer::new(1)).setting("max", 1)),
                ),
        )
        .tool(
            blocking_tool_fn_with_state("disk_usage", dir.clone(), disk_usage)
                .describe("Counts the files beneath a directory, and their bytes.")
                .read_only()
                .open_world(false)
                .tag("admin"),
        )
        .tool(tool_fn("demo_slow", demo_slow).describe("Takes a minute over nothing.").read_only().tag("demo"))
        .tool(sync_tool_fn("demo_panic", demo_panic).describe("Panics.").read_only().tag("demo"))
}

fn here() -> String {
    ".".to_owned()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListDir {
    /// The directory, from the root of the tools; `.` if left out.
    #[serde(default = "here")]
    path: String,
    /// How many entries to leave out.
    #[serde(default)]
    offset: usize,
}

#[derive(Serialize, JsonSchema)]
struct Listing {
    entries: Vec<Listed>,
    /// The offset to go on with, where there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// Whether the directory has more entries than are looked at.
    too_many: bool,
}

#[derive(Serialize, JsonSchema)]
struct Listed {
    name: String,
    /// `file`, `directory`, `link` or `special`.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Set where the name is not text, so that what is shown of it does not open it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    name_is_not_text: bool,
}

fn list_dir(args: ListDir, State(dir): State<Confined>) -> Result<Json<Listing>, ToolError> {
    let (entries, too_many) = dir.entries(checked(&args.path)?, LISTED_OF)?;
    let end = args.offset.saturating_add(LISTED);
    let next_offset = (entries.len() > end).then_some(end);
    let entries = entries.into_iter().skip(args.offset).take(LISTED).map(|entry| Listed {
        name_is_not_text: entry.name.to_str().is_none(),
        name: entry.name.to_string_lossy().into_owned(),
        kind: entry.kind,
        bytes: entry.bytes,
    });
    Ok(Json(Listing { entries: entries.collect(), next_offset, too_many }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// The file, from the root of the tools.
    path: String,
    /// The byte to begin with.
    #[serde(default)]
    offset: u64,
}

fn read_file(args: ReadFile, State(dir): State<Confined>) -> Result<Vec<Content>, ToolError> {
    let part = dir.read_text(checked(&args.path)?, args.offset, READ)?;
    let mut answer = vec![Content::text(part.text)];
    if let Some(next) = part.next {
        answer.push(Content::text(format!("[cut: the file has {} bytes; go on with offset {next}]", part.whole)));
    }
    Ok(answer)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// The text to find, as it is.
    text: String,
    /// A directory or a file, from the root of the tools; `.` if left out.
    #[serde(default = "here")]
    path: String,
}

fn search(args: Search, State(dir): State<Confined>, cancellation: Cancellation) -> Result<Vec<Content>, ToolError> {
    if args.text.is_empty() || args.text.contains('\n') {
        return Err(ToolError::new("`text` must be one line, and not empty"));
    }
    let start = checked(&args.path)?;
    let mut search = Searching { dir: &dir, text: &args.text, matches: Vec::new(), left: SEARCHED, passed_over: 0 };
    let mut summary = if dir.metadata(start)?.is_dir() {
        let walked = dir.walk(start, false, &cancellation, |path, entry| match entry.kind {
            "file" => search.file(path),
            _ => ControlFlow::Continue(()),
        })?;
        walked.stopped.into_iter().chain((walked.unreadable > 0).then(|| "some directories cannot be read".to_owned())).collect()
    } else {
        dir.open_file(start)?;
        search.file(start).break_value().into_iter().collect::<Vec<_>>()
    };
    if search.passed_over > 0 {
        summary.push(format!("passed over, since no text or over 1 MiB: {}", counted(search.passed_over, "file")));
    }
    summary.insert(0, counted(search.matches.len() as u64, "match"));
    let mut answer = Vec::new();
    if !search.matches.is_empty() {
        answer.push(Content::text(search.matches.join("\n")));
    }
    answer.push(Content::text(format!("[{}]", summary.join("; "))));
    Ok(answer)
}

struct Searching<'a> {
    dir: &'a Confined,
    text: &'a str,
    matches: Vec<String>,
    /// How many bytes may still be read.
    left: u64,
    passed_over: u64,
}

impl Searching<'_> {
    fn file(&mut self, path: &Path) -> ControlFlow<String> {
        let Some(content) = self.content(path) else {
            self.passed_over += 1;
            return ControlFlow::Continue(());
        };
        for (number, line) in content.lines().enumerate().filter(|(_, line)| line.contains(self.text)) {
            if self.matches.len() == MATCHES {
                return ControlFlow::Break(format!("stopped after {MATCHES}"));
            }
            let mut found = format!("{}:{}: ", path.display(), number + 1);
            let line = line.trim();
            found.extend(line.chars().take(MATCHED_LINE));
            if line.chars().nth(MATCHED_LINE).is_some() {
                found.push('…');
            }
            self.matches.push(found);
        }
        if self.left == 0 { ControlFlow::Break(format!("stopped after {} MiB", SEARCHED >> 20)) } else { ControlFlow::Continue(()) }
    }

    /// The text of a file, if it is text and not too long.
    fn content(&mut self, path: &Path) -> Option<String> {
        let (file, bytes) = self.dir.open_file(path).ok()?;
        if bytes > SEARCHED_FILE {
            return None;
        }
        let mut content = Vec::new();
        let read = file.take(SEARCHED_FILE).read_to_end(&mut content).ok()?;
        self.left = self.left.saturating_sub(read as u64);
        String::from_utf8(content).ok().filter(|text| !text.contains('\0'))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    /// The file, from the root of the tools.
    path: String,
    /// The whole of the text.
    content: String,
    /// Whether a file that is there already may be replaced.
    #[serde(default)]
    overwrite: bool,
}

/// The rule of `write_file`'s own: judged by the arguments as they came, before anything is read out of them.
fn small_enough(call: &mut ToolCall) -> Result<(), Refusal> {
    match call.arguments.as_json() {
        Ok(json) if json.len() > WRITTEN => Err(Refusal::new(
            RefusalKind::LimitExceeded,
            format!("The arguments have {} bytes; write_file takes at most {WRITTEN}.", json.len()),
        )
        .with_by("write_limit")),
        _ => Ok(()),
    }
}

fn write_file(args: WriteFile, State(dir): State<Confined>, cancellation: Cancellation) -> Result<String, ToolError> {
    let path = checked(&args.path)?;
    // It may have waited for a thread longer than anybody waits for it.
    if cancellation.is_cancelled() {
        return Err(ToolError::new("the call was cancelled"));
    }
    dir.write(path, &args.content, args.overwrite)?;
    Ok(format!("wrote {} bytes", args.content.len()))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DiskUsage {
    /// The directory, from the root of the tools; `.` if left out.
    #[serde(default = "here")]
    path: String,
}

fn disk_usage(args: DiskUsage, State(dir): State<Confined>, cancellation: Cancellation) -> Result<String, ToolError> {
    let (mut files, mut bytes) = (0_u64, 0_u64);
    let mut largest: Option<(u64, PathBuf)> = None;
    let walked = dir.walk(checked(&args.path)?, true, &cancellation, |path, entry| {
        files += 1;
        let size = entry.bytes.unwrap_or(0);
        bytes += size;
        if largest.as_ref().is_none_or(|(most, _)| size > *most) {
            largest = Some((size, path.to_owned()));
        }
        ControlFlow::Continue(())
    })?;
    let mut answer = format!("{}, {bytes} bytes", counted(files, "file"));
    if let Some((size, path)) = largest {
        let _ = write!(answer, "; the largest is {} with {size}", path.display());
    }
    if let Some(why) = walked.stopped {
        let _ = write!(answer, " [{why}]");
    }
    Ok(answer)
}

fn counted(count: u64, what: &str) -> String {
    let plural = match what {
        _ if count == 1 => "",
        "match" => "es",
        _ => "s",
    };
    format!("{count} {what}{plural}")
}

async fn demo_slow() -> &'static str {
    tokio::time::sleep(Duration::from_secs(60)).await;
    "done at last"
}

fn demo_panic() -> &'static str {
    std::panic::panic_any(DEMO_PANIC)
}
