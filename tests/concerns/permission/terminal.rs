//! What a person is shown, on a terminal or by a question that the call is answered with, and which answers count.

use std::{
    io::{BufReader, Cursor, Read, Write},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use toolstack::{
    RefusalKind, StackExt, ToolCall, ToolResponse,
    layer::permission::{Effect, PermissionLayer, Reentry, Rules, TerminalApprover},
    model::Arguments,
    testing::Probe,
};

use super::{guarded, kind, text};

#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Screen {
    fn shown(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Has typed something before the question is there, and types the rest after.
struct Typist {
    screen: Screen,
    before: Cursor<&'static str>,
    after: Cursor<&'static str>,
}

impl Read for Typist {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self.before.read(into)? {
            0 => {
                while self.screen.0.lock().unwrap().is_empty() {
                    std::thread::yield_now();
                }
                self.after.read(into)
            }
            read => Ok(read),
        }
    }
}

fn asking(terminal: TerminalApprover) -> PermissionLayer {
    PermissionLayer::new(Rules::empty(), Effect::Ask).ask(terminal)
}

/// What comes of a call, and what the terminal shows.
async fn on_a_terminal(before: &'static str, after: &'static str, arguments: impl Into<Arguments>) -> (ToolResponse, String) {
    let screen = Screen::default();
    let typist = Typist { screen: screen.clone(), before: Cursor::new(before), after: Cursor::new(after) };
    let terminal = TerminalApprover::with_io(BufReader::new(typist), screen.clone());
    let probe = Probe::new();
    let response = guarded(asking(terminal), &probe, &["t"]).run_call(ToolCall::new("t", arguments)).await;
    assert_eq!(probe.runs(), usize::from(response.is_completed()));
    // Whoever waits for a question that is not put is let go.
    screen.clone().write_all(b"\n").unwrap();
    (response, screen.shown())
}

#[tokio::test]
async fn a_terminal_asks_and_takes_only_the_answers_that_it_offers() {
    let arguments = || json!({ "x": "\u{7f}\u{1b}[2J\u{202e}evil\u{9b}" });
    let (response, shown) = on_a_terminal("", "maybe\n y \n", arguments()).await;
    assert!(response.is_completed(), "{response:?}");
    assert!(shown.contains("May `t` run?") && shown.contains("Not one of the answers"), "{shown}");
    assert!(shown.contains("\\u{7f}\\u001b[2J\\u{202e}evil\\u{9b}") && !shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
    for (typed, expected) in
        [("n\n", RefusalKind::Denied), ("Y\nok\nyes please\ny\n", RefusalKind::ApprovalNeeded), ("", RefusalKind::ApprovalNeeded)]
    {
        assert_eq!(kind(&on_a_terminal("", typed, arguments()).await.0), Some(expected), "{typed}");
    }
}

#[tokio::test]
async fn what_was_typed_before_the_question_is_no_answer_to_it() {
    for (before, after, expected) in [
        ("y\n", "n\n", Some(RefusalKind::Denied)),
        ("y\na\ny\n", "n\n", Some(RefusalKind::Denied)),
        ("n\n", "y\n", None),
        ("y\n", "", Some(RefusalKind::ApprovalNeeded)),
    ] {
        let (response, shown) = on_a_terminal(before, after, json!({})).await;
        assert_eq!(kind(&response), expected, "{before:?} {after:?} {shown}");
        assert!(!shown.contains("Not one of the answers"), "{shown}");
    }
}

#[tokio::test]
async fn an_input_that_never_pauses_is_nobody() {
    let screen = Screen::default();
    let terminal = TerminalApprover::with_io(BufReader::new(std::io::repeat(b'\n')), screen.clone());
    let probe = Probe::new();
    let response = guarded(asking(terminal), &probe, &["t"]).call_tool("t", json!({})).await;
    assert_eq!((kind(&response), probe.runs(), screen.shown().as_str()), (Some(RefusalKind::ApprovalNeeded), 0, ""));
}

#[tokio::test]
async fn a_terminal_that_is_none_has_nobody_to_ask() {
    if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        return;
    }
    let stack = guarded(asking(TerminalApprover::new()), &Probe::new(), &["t"]);
    assert_eq!(kind(&stack.call_tool("t", json!({})).await), Some(RefusalKind::ApprovalNeeded));
}

/// The message of the question that the call is answered with, or the refusal.
async fn by_reentry(reentry: Reentry, arguments: impl Into<Arguments>) -> Result<String, String> {
    let layer = PermissionLayer::new(Rules::empty(), Effect::Ask).ask_by_reentry(reentry);
    match guarded(layer, &Probe::new(), &["t"]).run_call(ToolCall::new("t", arguments)).await {
        ToolResponse::InputRequired(asked) => {
            let request: Value = asked.requests.get("approval").unwrap().unwrap();
            Ok(request["params"]["message"].as_str().unwrap().to_owned())
        }
        response => {
            assert_eq!(kind(&response), Some(RefusalKind::ApprovalNeeded));
            Err(text(&response))
        }
    }
}

#[tokio::test]
async fn b04_nothing_is_pushed_out_of_sight_in_a_question() {
    let spaced = Arguments::from_text(format!("{{\"command\":\"ls\",{}\"then\":\"rm -rf /\"}}", " \n".repeat(20_000)));
    let expected = r#"{"command":"ls","then":"rm -rf /"}"#;
    let (response, shown) = on_a_terminal("", "y\n", spaced.clone()).await;
    assert!(response.is_completed() && shown.contains(expected), "{shown}");
    assert!(by_reentry(Reentry::new(), spaced).await.unwrap().contains(expected));
    // Blanks within a text stand as codes once there are many of them, and odd ones always.
    let blanks = json!({ "x": format!("a{}b\u{3000}c\u{2800}d\u{a0}e", " ".repeat(18)) });
    let message = by_reentry(Reentry::new(), blanks).await.unwrap();
    assert!(message.contains(&format!("a{}\\u{{20}}\\u{{20}}b\\u{{3000}}c\\u{{2800}}d\\u{{a0}}e", " ".repeat(16))), "{message}");
}

#[tokio::test]
async fn b04_nobody_is_asked_about_what_is_not_shown() {
    let long = |length: usize| json!({ "a": "x".repeat(length), "then": "rm -rf /" });
    let refused =
        "'t' was not run: it needs a person's approval, and its arguments take more than the 10000 characters that a person is shown.";
    // It is not put, so nothing is there to say yes to.
    let (response, shown) = on_a_terminal("y\n", "y\n", long(10_000)).await;
    assert_eq!((kind(&response), text(&response).as_str(), shown.as_str()), (Some(RefusalKind::ApprovalNeeded), refused, "\n"));
    assert_eq!(by_reentry(Reentry::new(), long(10_000)).await.unwrap_err(), refused);
    assert!(by_reentry(Reentry::new(), long(9_900)).await.unwrap().contains("rm -rf /"));
    assert!(by_reentry(Reentry::new().show_at_most(20_000), long(10_000)).await.unwrap().contains("rm -rf /"));
    // What is shown is counted as it is shown.
    assert!(by_reentry(Reentry::new(), json!({ "a": "\u{202e}".repeat(2000) })).await.is_err());
    let broken = Arguments::from_text(r#"{"a":1,"a":2}"#);
    assert!(by_reentry(Reentry::new(), broken.clone()).await.unwrap_err().ends_with("no JSON that a person could be shown."));
    assert_eq!(kind(&on_a_terminal("", "y\n", broken).await.0), Some(RefusalKind::ApprovalNeeded));
}
