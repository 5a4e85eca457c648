//! The quickstart as a stranger would use it, and what the README promises.

#[allow(dead_code, reason = "an example as it is, of which the tests call some functions and not `main`")]
#[path = "../../examples/quickstart/main.rs"]
mod quickstart;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::{Value, json};
use toolstack::{Stack, StackExt, ToolCall};

use self::quickstart::{confined::Confined, lines, script};

/// A directory of its own for each test, beside which nothing of ours is.
struct Place {
    root: PathBuf,
    stack: Stack,
    dir: Confined,
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("toolstack-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(root.join("dir")).unwrap();
        let dir = Confined::open(&root.join("dir")).unwrap();
        Self { stack: quickstart::stack(&dir), dir, root }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join("dir").join(name)
    }

    fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Calls a tool: how it ended, and what the model reads.
    async fn call(&self, tool: &str, arguments: Value) -> (&'static str, String) {
        let answer = self.stack.call_tool(tool, arguments).await;
        (answer.outcome().as_str(), answer.as_text().unwrap_or_default().into_owned())
    }

    async fn answer(&self, lines: impl AsRef<[u8]>) -> Vec<Value> {
        let mut output = Vec::new();
        lines::answer(&self.stack, lines.as_ref(), &mut output).await.unwrap();
        output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_slice(line).unwrap()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[tokio::test(start_paused = true)]
async fn the_script_ends_as_it_says_and_leaves_nothing_behind() {
    let place = Place::new();
    place.file("README.md", "hello");
    script::run(&place.stack, &place.dir).await.unwrap();
    let left: Vec<_> = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["README.md"]);
}

#[tokio::test]
async fn no_path_leads_outside() {
    let place = Place::new();
    fs::write(place.root.join("secret"), "secret").unwrap();
    fs::create_dir(place.path("sub")).unwrap();
    let mut outside = vec!["..", "../secret", "sub/../../secret", "/etc/passwd", "/"];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("..", place.path("up")).unwrap();
        std::os::unix::fs::symlink(place.root.join("secret"), place.path("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", place.path("zero")).unwrap();
        outside.extend(["up", "up/secret", "link", "zero"]);
    }
    for path in outside {
        for tool in ["read_file", "list_dir"] {
            let (outcome, reads) = place.call(tool, json!({ "path": path })).await;
            assert!(outcome == "tool_error" && reads.contains("leads outside"), "{tool} {path}: {outcome}: {reads}");
        }
        let (outcome, reads) = place.call("search", json!({ "path": path, "text": "secret" })).await;
        assert!(outcome == "tool_error" && reads.contains("leads outside"), "search {path}: {outcome}: {reads}");
        for path in [path.to_owned(), format!("{path}/new")] {
            let (outcome, reads) = place.call("write_file", json!({ "path": path, "content": "x", "overwrite": true })).await;
            assert_eq!(outcome, "tool_error", "write_file {path}: {reads}");
        }
    }
    // A search from the root meets the links, and follows none.
    assert_eq!(place.call("search", json!({ "text": "secret" })).await.1, "[0 matches]");
    assert_eq!(fs::read_to_string(place.root.join("secret")).unwrap(), "secret");
    assert_eq!(fs::read_dir(&place.root).unwrap().count(), 2);
}

#[tokio::test]
async fn a_write_that_is_refused_leaves_no_directory_behind() {
    let place = Place::new();
    for path in ["CON/../../evil", "new/../evil", "new/deep/../../../evil"] {
        let (outcome, reads) = place.call("write_file", json!({ "path": path, "content": "x" })).await;
        assert_eq!(outcome, "tool_error", "{path}: {reads}");
        assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0, "{path}");
    }
    fs::create_dir(place.path("sub")).unwrap();
    for path in ["sub/../file", "deep/er/file"] {
        assert_eq!(place.call("write_file", json!({ "path": path, "content": "x" })).await.0, "completed", "{path}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_fifo_and_a_socket_are_refused_and_nothing_waits() {
    let place = Place::new();
    let made = std::process::Command::new("mkfifo").arg(place.path("fifo")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    std::os::unix::fs::symlink("fifo", place.path("link")).unwrap();
    // Held open at both ends: whoever reads it all the same would wait until this goes, which is before the runtime does.
    let _held = fs::OpenOptions::new().read(true).write(true).open(place.path("fifo")).unwrap();

    for (tool, arguments) in [
        ("read_file", json!({ "path": "fifo" })),
        ("read_file", json!({ "path": "link" })),
        ("read_file", json!({ "path": "socket" })),
        ("search", json!({ "path": "fifo", "text": "x" })),
        ("write_file", json!({ "path": "fifo", "content": "x", "overwrite": true })),
    ] {
        let (outcome, reads) = place.call(tool, arguments).await;
        assert!(outcome == "tool_error" && reads.contains("only regular files are opened"), "{tool}: {outcome}: {reads}");
    }
    assert_eq!(place.call("search", json!({ "text": "x" })).await, ("completed", "[0 matches]".to_owned()));
    let (_, listed) = place.call("list_dir", json!({})).await;
    assert!(listed.contains(r#"{"name":"fifo","kind":"special"}"#), "{listed}");
}

#[tokio::test]
async fn a_long_file_comes_in_parts_that_make_up_the_whole() {
    let place = Place::new();
    // Characters of two bytes after one of one, so that no limit falls between two of them.
    let whole = format!("x{}", "é".repeat(100_000));
    place.file("long", &whole);
    let (mut offset, mut parts) = (0, Vec::new());
    loop {
        let answer = place.stack.call_tool("read_file", json!({ "path": "long", "offset": offset })).await;
        let content = answer.result().unwrap().content();
        parts.push(content[0].as_text().unwrap().to_owned());
        assert!(parts.last().unwrap().len() <= 64 * 1024);
        let Some(note) = content.get(1).and_then(|block| block.as_text()) else { break };
        offset = note.trim_end_matches(']').rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    }
    assert_eq!(parts.len(), 4);
    assert_eq!(parts.concat(), whole);

    let (outcome, reads) = place.call("read_file", json!({ "path": "long", "offset": u64::MAX })).await;
    assert!(outcome == "tool_error" && reads.contains("has only 200001 bytes"), "{reads}");
}

#[tokio::test]
async fn what_is_no_text_and_what_is_huge_is_passed_over() {
    let place = Place::new();
    fs::File::create(place.path("sparse")).unwrap().set_len(1 << 30).unwrap();
    place.file("latin1", b"caf\xe9 needle");
    place.file("text", "one\n  a needle\n");
    fs::create_dir(place.path("cache")).unwrap();
    place.file("cache/CACHEDIR.TAG", "");
    place.file("cache/text", "needle");

    let (outcome, reads) = place.call("read_file", json!({ "path": "sparse" })).await;
    assert!(outcome == "tool_error" && reads.contains("byte 0 is no part"), "{reads}");
    let (outcome, reads) = place.call("read_file", json!({ "path": "latin1" })).await;
    assert!(outcome == "tool_error" && reads.contains("byte 3 is no part"), "{reads}");
    let (_, reads) = place.call("search", json!({ "text": "needle" })).await;
    assert_eq!(reads, "text:2: a needle\n[1 match; passed over, since no text or over 1 MiB: 2 files]");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_name_that_is_no_text_is_listed_as_such() {
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new();
    place.file(std::ffi::OsStr::from_bytes(b"n\xff"), "");
    let (outcome, listed) = place.call("list_dir", json!({})).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(outcome, "completed");
    assert_eq!(listed["entries"][0], json!({ "name": "n\u{fffd}", "kind": "file", "bytes": 0, "name_is_not_text": true }));
}

#[tokio::test]
async fn a_long_directory_comes_in_pages() {
    let place = Place::new();
    for number in 0..250 {
        place.file(format!("f{number:03}"), "");
    }
    let (mut names, mut offset) = (Vec::new(), json!(0));
    while offset.is_u64() {
        let (_, listed) = place.call("list_dir", json!({ "offset": offset })).await;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        names.extend(listed["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        offset = listed["next_offset"].clone();
    }
    assert!(names.iter().cloned().eq((0..250).map(|number| format!("f{number:03}"))), "{names:?}");
}

#[tokio::test]
async fn a_file_is_replaced_when_asked_and_keeps_its_permissions() {
    let place = Place::new();
    place.file("script", "old");
    #[cfg(unix)]
    fs::set_permissions(place.path("script"), std::os::unix::fs::PermissionsExt::from_mode(0o750)).unwrap();

    let (outcome, reads) = place.call("write_file", json!({ "path": "script", "content": "new" })).await;
    assert!(outcome == "tool_error" && reads.contains("overwrite: true"), "{reads}");
    assert_eq!(fs::read_to_string(place.path("script")).unwrap(), "old");

    let (outcome, _) = place.call("write_file", json!({ "path": "script", "content": "new", "overwrite": true })).await;
    assert_eq!((outcome, fs::read_to_string(place.path("script")).unwrap().as_str()), ("completed", "new"));
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(place.path("script")).unwrap().permissions()) & 0o777, 0o750);
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 1, "something was left beside it");
}

#[tokio::test(start_paused = true)]
async fn lines_are_answered_in_order_whatever_is_in_them() {
    let place = Place::new();
    let mut input = Vec::new();
    // The first takes longest.
    input.extend_from_slice(b"{\"id\":1,\"name\":\"demo_slow\"}\n");
    input.extend_from_slice(b"\xff\xfe{}\n\n  \r\n[1]\n{\"id\":\"x\"}\n{\"id\":1.5,\"name\":\"list_dir\"}\n");
    input.extend_from_slice(format!("{{\"id\":\"long\",\"name\":\"{}\"}}\n", "x".repeat(lines::LONGEST)).as_bytes());
    input.extend_from_slice(format!("\"{}\"\n", "y".repeat(lines::LONGEST - 2)).as_bytes());
    input.extend_from_slice(b"{\"id\":\"two\",\"name\":\"list_dir\",\"arguments\":{}}\r\n");
    input.extend_from_slice(b"{\"id\":\"two\",\"name\":\"demo_panic\"}\n{\"id\":3,\"name\":\"disk_usage\"}");

    let answers = place.answer(input).await;
    let short: Vec<_> = answers.iter().map(|answer| (answer["id"].clone(), answer["outcome"].as_str(), answer["line"].as_u64())).collect();
    let expected = [
        (json!(1), Some("timeout"), None),
        (Value::Null, None, Some(2)),
        (Value::Null, None, Some(5)),
        (Value::Null, None, Some(6)),
        (Value::Null, None, Some(7)),
        (Value::Null, None, Some(8)),
        (Value::Null, None, Some(9)),
        (json!("two"), Some("completed"), None),
        (json!("two"), Some("internal"), None),
        (json!(3), Some("unknown_tool"), None),
    ];
    assert_eq!(short, expected);
    for answer in &answers {
        assert!(answer["error"].as_str().is_none_or(|error| !error.is_empty() && error.len() < 300), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_does_not_wait_for_the_next_line() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex};

    let place = Place::new();
    let (mut calls, input) = duplex(1024);
    let (answers, mut output) = duplex(1024);
    let stack = place.stack.clone();
    let served = tokio::spawn(async move { lines::answer(&stack, BufReader::new(input), &mut output).await });
    let mut answers = BufReader::new(answers).lines();
    for id in 1..=3 {
        calls.write_all(format!("{{\"id\":{id},\"name\":\"list_dir\"}}\n").as_bytes()).await.unwrap();
        let answer: Value = serde_json::from_str(&answers.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], id);
    }
    drop(calls);
    served.await.unwrap().unwrap();
    assert_eq!(answers.next_line().await.unwrap(), None);
}

#[tokio::test]
async fn as_many_lines_as_one_likes_are_never_turned_away() {
    let place = Place::new();
    let answers = place.answer("{\"id\":1,\"name\":\"list_dir\"}\n".repeat(500)).await;
    assert_eq!(answers.len(), 500);
    assert!(answers.iter().all(|answer| answer["outcome"] == "completed"));
}

#[tokio::test]
async fn the_admin_tool_runs_for_an_operator_alone() {
    use toolstack::model::{Context, Principal};

    let place = Place::new();
    place.file("a", "12345");
    assert_eq!(place.call("disk_usage", json!({})).await, ("unknown_tool", "Unknown tool: disk_usage".to_owned()));
    let operator = Context::new().with_principal(Principal::new("operator").scope("admin"));
    let answer = place.stack.run_call(ToolCall::new("disk_usage", json!({})).with_context(operator)).await;
    assert_eq!(answer.as_text().as_deref(), Some("1 file, 5 bytes; the largest is a with 5"));
}

const README: &str = include_str!("../../README.md");

#[test]
fn the_readme_names_the_version_once_and_rightly() {
    let version = env!("CARGO_PKG_VERSION");
    let named: Vec<_> = README.lines().filter(|line| line.starts_with("toolstack = ")).collect();
    assert_eq!(named, [format!("toolstack = \"{version}\"")]);
    assert_eq!(README.matches(version).count(), 1);
}

/// A stranger who copies the example needs each of them.
#[test]
fn the_readme_names_every_crate_that_its_example_uses() {
    let block = README.split("[dependencies]\n").nth(1).unwrap().split("```").next().unwrap();
    for dependency in ["schemars", "serde", "serde_json", "tokio", "toolstack", "tower"] {
        assert!(block.lines().any(|line| line.starts_with(&format!("{dependency} = "))), "{dependency}");
    }
}

#[test]
fn the_readme_is_short_and_begins_with_the_two_commands() {
    assert!(README.lines().count() <= 130);
    let first: Vec<_> = README.lines().take(25).collect();
    // Not a part of the package, but of every checkout.
    let script = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/run")).ok();
    for command in ["cargo run --example quickstart", "cargo test --all-features"] {
        assert!(first.iter().any(|line| line.starts_with(command)), "{command}");
        let checked = |script: &String| script.lines().any(|line| line.starts_with("step ") && line.ends_with(command));
        assert!(script.as_ref().is_none_or(checked), "{command} is not what is checked");
    }
}

#[test]
fn the_readme_names_every_example() {
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        assert!(README.contains(&name), "{name}");
    }
}
