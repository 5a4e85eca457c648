//! Hooks that are programs: what they are shown, and that nothing but an answer is an answer.

use std::{error::Error, time::Duration};

use futures_util::FutureExt;
use proptest::prelude::*;
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::hooks::{
        HooksLayer,
        external::{Answer, Decision, ExternalEvent, ExternalHook},
    },
    model::{Arguments, Context, Outcome, Remark},
    testing::Probe,
};
use tower::Layer;

use super::{Trace, call};

const ALLOW: &str = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#;

fn shell(script: &str) -> ExternalHook {
    ExternalHook::new("guard", "/bin/sh").arg("-c").arg(script)
}

/// A program that answers this.
fn saying(answer: &str) -> ExternalHook {
    shell("cat >/dev/null; printf %s \"$ANSWER\"").env("ANSWER", answer)
}

async fn through(hooks: HooksLayer, probe: &Probe) -> ToolResponse {
    hooks.layer(Router::new().tool(probe.tool("t"))).run_call(call("t")).await
}

async fn before(hook: ExternalHook) -> (ToolResponse, Probe) {
    let probe = Probe::new();
    (through(HooksLayer::new().hook(hook.before()), &probe).await, probe)
}

fn pre(fields: &str) -> String {
    format!(r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse",{fields}}}}}"#)
}

fn post(top: &str, fields: &str) -> String {
    format!(r#"{{"hookSpecificOutput":{{"hookEventName":"PostToolUse"{fields}}}{top}}}"#)
}

#[tokio::test]
async fn a_program_allows_denies_and_asks() {
    let (response, probe) = before(saying(ALLOW)).await;
    assert_eq!((response.outcome(), probe.runs()), (Outcome::Completed, 1));

    let (response, probe) = before(saying(&pre(r#""permissionDecision":"deny","permissionDecisionReason":"Not that.""#))).await;
    let refusal = response.refusal().unwrap();
    assert_eq!((refusal.kind(), refusal.by(), refusal.message(), probe.runs()), (RefusalKind::Denied, "guard", "Not that.", 0));

    let (response, probe) = before(saying(&pre(r#""permissionDecision":"ask""#))).await;
    let refusal = response.refusal().unwrap();
    assert_eq!((refusal.kind(), refusal.by(), probe.runs()), (RefusalKind::ApprovalNeeded, "guard", 0));
    assert_eq!(refusal.message(), "The hook guard wants a person to approve this.");
}

#[tokio::test]
async fn exit_code_2_blocks_whatever_stands_on_the_standard_output() {
    for script in ["echo 'No keys.' >&2; exit 2", "cat >/dev/null; echo nonsense; echo 'No keys.' >&2; exit 2"] {
        let (response, probe) = before(shell(script)).await;
        let refusal = response.refusal().unwrap();
        assert_eq!((refusal.kind(), refusal.by(), refusal.message(), probe.runs()), (RefusalKind::Denied, "guard", "No keys.", 0));
    }
    let (response, _) = before(shell("exit 2")).await;
    assert_eq!(response.as_text().as_deref(), Some("The hook guard does not allow this."));
    // What a terminal or a model might take for something else is left out, and a long reason is cut.
    let (response, _) = before(shell(r"printf 'a\033[31mb\0c\n' >&2; exit 2")).await;
    assert_eq!(response.as_text().as_deref(), Some("a[31mbc"));
    let (response, _) = before(shell("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 2")).await;
    assert_eq!(response.as_text().unwrap().len(), 4096);
}

/// What is no answer, and why. A12: none of them is taken for one.
fn no_answers() -> Vec<(&'static str, String, &'static str)> {
    let allow = r#""permissionDecision":"allow""#;
    vec![
        ("nothing", String::new(), "it is empty"),
        ("white space", " \n ".into(), "it is empty"),
        ("half of one", ALLOW[..ALLOW.len() - 1].into(), "it cannot be read"),
        ("two", format!("{ALLOW}{ALLOW}"), "it cannot be read"),
        ("words before it", format!("ok: {ALLOW}"), "it cannot be read"),
        ("a word", r#""allow""#.into(), "not an object"),
        ("null", "null".into(), "not an object"),
        ("an empty object", "{}".into(), "it cannot be read"),
        ("an array by position", format!("[{}]", r#"{"hookEventName":"PreToolUse","permissionDecision":"allow"}"#), "not an object"),
        ("an inner array by position", r#"{"hookSpecificOutput":["PreToolUse","allow",null,null,null]}"#.into(), "not an object"),
        ("an unknown word", pre(r#""permissionDecision":"block""#), "a word that nobody knows"),
        ("a word in other letters", pre(r#""permissionDecision":"Deny""#), "a word that nobody knows"),
        ("a word that is none", pre(r#""permissionDecision":true"#), "it cannot be read"),
        ("a word in an object", pre(r#""permissionDecision":{"allow":null}"#), "it cannot be read"),
        ("no decision", pre(r#""additionalContext":"x""#), "`permissionDecision` is missing"),
        ("no event", format!(r#"{{"hookSpecificOutput":{{{allow}}}}}"#), "it cannot be read"),
        ("the other event", post("", ""), "another event"),
        ("an unknown event", ALLOW.replace("PreToolUse", "Stop"), "a word that nobody knows"),
        ("the right word in the wrong place", r#"{"permissionDecision":"deny"}"#.into(), "it cannot be read"),
        ("the word of another version", r#"{"decision":"block","reason":"no"}"#.into(), "it cannot be read"),
        ("both", ALLOW.replacen('{', r#"{"decision":"block","#, 1), "`decision` stands"),
        ("an unknown field", pre(&format!(r#"{allow},"permissionReason":"x""#)), "it cannot be read"),
        ("an unknown field outside", ALLOW.replacen('{', r#"{"continue":false,"#, 1), "it cannot be read"),
        ("a field twice", pre(&format!(r#""permissionDecision":"deny",{allow}"#)), "it cannot be read"),
        ("arguments beside a denial", pre(r#""permissionDecision":"deny","updatedInput":{}"#), "`updatedInput` stands"),
        ("arguments that are no object", pre(&format!(r#"{allow},"updatedInput":[1]"#)), "`updatedInput` is not an object"),
        (
            "arguments with a key twice",
            pre(&format!(r#"{allow},"updatedInput":{{"a":{{"k":1,"k":2}}}}"#)),
            "`updatedInput` is not an object",
        ),
    ]
}

/// Refused for what the caller wrote, which is no failure of the program's.
fn not_shown(response: &ToolResponse, why: &str, what: &str) {
    let refusal = response.refusal().unwrap_or_else(|| panic!("{what} was shown"));
    assert_eq!((refusal.kind(), refusal.by()), (RefusalKind::InvalidArguments, "guard"), "{what}");
    assert!(refusal.message().contains(why), "{what}: {}", refusal.message());
}

fn policy_failure(response: &ToolResponse, why: &str, what: &str) {
    let refusal = response.refusal().unwrap_or_else(|| panic!("{what} was taken for an answer"));
    assert_eq!((refusal.kind(), refusal.by(), refusal.message()), (RefusalKind::Internal, "guard", "The request failed."), "{what}");
    let source = refusal.source().unwrap().to_string();
    assert!(source.contains(why), "{what}: {source}");
}

#[tokio::test]
async fn a12_what_is_no_answer_is_a_failure_of_the_hook_and_never_an_opinion() {
    for (what, answer, why) in no_answers() {
        let error = Answer::parse(ExternalEvent::PreToolUse, answer.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{what}: {error}");
    }
    // Not one program for each: a few go the whole way.
    for at in [0, 2, 10, 18] {
        let (what, answer, why) = no_answers().swap_remove(at);
        let trace = Trace::default();
        let [denied, error] = std::array::from_fn(|_| trace.clone());
        let layer = HooksLayer::new()
            .hook(saying(&answer).before())
            .on_denied("denied", move |_| denied.say("denied"))
            .on_error("error", move |_| error.say("error"));
        let failures = layer.failures();
        let probe = Probe::new();
        policy_failure(&through(layer, &probe).await, why, what);
        assert_eq!((probe.runs(), failures.of("guard"), trace.text().as_str()), (0, 1, "error"));
    }
}

#[tokio::test]
async fn a12_a_program_that_ends_badly_or_says_too_much_has_failed() {
    for (what, hook, why) in [
        ("another exit code", shell(&format!("cat >/dev/null; echo '{ALLOW}'; exit 1")), "exit code 1"),
        ("a signal", shell(&format!("cat >/dev/null; echo '{ALLOW}'; kill -9 $$")), "a signal"),
        ("no such program", ExternalHook::new("guard", "/no/such/program"), "cannot be run"),
        ("too much", shell("cat >/dev/null; head -c 100000 /dev/zero").max_output(1000), "more than 1000 bytes"),
    ] {
        let (response, probe) = before(hook).await;
        policy_failure(&response, why, what);
        assert_eq!(probe.runs(), 0, "{what}");
    }
}

#[tokio::test]
async fn a12_exit_code_2_blocks_however_much_was_said_and_whoever_still_holds_the_streams() {
    for (what, script) in [
        ("too much", "cat >/dev/null; head -c 3000000 /dev/zero; echo 'No keys.' >&2; exit 2"),
        ("too much, without reading", "head -c 3000000 /dev/zero; echo 'No keys.' >&2; exit 2"),
        ("something in the background", "cat >/dev/null; echo 'No keys.' >&2; sleep 20 & exit 2"),
    ] {
        let probe = Probe::new();
        let layer = HooksLayer::new().hook(shell(script).max_output(1000).before().timeout(Duration::from_secs(10)).fail_open());
        let failures = layer.failures();
        let response = through(layer, &probe).await;
        let refusal = response.refusal().unwrap_or_else(|| panic!("{what}: a no was overheard"));
        assert_eq!((refusal.kind(), refusal.by(), refusal.message()), (RefusalKind::Denied, "guard", "No keys."), "{what}");
        assert_eq!((probe.runs(), failures.total()), (0, 0), "{what}");
    }
}

#[tokio::test]
async fn a12_a_program_that_never_stops_talking_is_killed_when_its_time_is_over() {
    let probe = Probe::new();
    let layer = HooksLayer::new().hook(shell("cat >/dev/null; exec cat /dev/zero").before().timeout(Duration::from_millis(200)));
    policy_failure(&through(layer, &probe).await, "longer than 200ms", "endless");
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn a12_a_program_that_takes_too_long_is_killed_and_has_failed() {
    let file = std::env::temp_dir().join(format!("toolstack-hook-{}", std::process::id()));
    let script = format!("cat >/dev/null; sleep 1; echo late > '{}'; echo '{ALLOW}'", file.display());
    let probe = Probe::new();
    let layer = HooksLayer::new().hook(shell(&script).before().timeout(Duration::from_millis(100)));
    policy_failure(&through(layer, &probe).await, "longer than 100ms", "too slow");

    // Dropping the call kills it as well.
    let stack = HooksLayer::new().hook(shell(&script).before()).layer(Router::new().tool(probe.tool("t")));
    {
        let running = stack.run_call(call("t"));
        tokio::pin!(running);
        let _ = tokio::time::timeout(Duration::from_millis(100), running.as_mut()).await;
        assert!(running.as_mut().now_or_never().is_none());
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!file.exists(), "a program went on after its time");
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn a_program_that_fails_open_has_changed_nothing() {
    let answer = pre(r#""permissionDecision":"maybe","updatedInput":{"n":2},"additionalContext":"x""#);
    let probe = Probe::new();
    let response = through(HooksLayer::new().hook(saying(&answer).before().fail_open()), &probe).await;
    assert!(response.is_completed() && response.remarks().is_empty());
    assert_eq!(probe.arguments(), [r#"{"n":1}"#]);
}

#[tokio::test]
async fn i01_numbers_pass_through_a_program_bit_for_bit() {
    const EXACT: &str = r#"{"big":9007199254740993,"min":-9223372036854775808,"max":18446744073709551615,"beyond":18446744073709551616,"huge":1e400,"zero":-0.0,"one":1.0,"long":0.123456789012345678901234567890}"#;
    // Gives back what it is shown, as it is.
    let script = r#"input=$(cat); input=${input#*\"tool_input\":}; printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":%s}' "$input""#;
    let probe = Probe::new();
    let stack = HooksLayer::new().hook(shell(script).before()).layer(Router::new().tool(probe.tool("t")));
    let response = stack.run_call(ToolCall::new("t", Arguments::from_text(EXACT))).await;
    assert!(response.is_completed(), "{:?}", response.refusal().and_then(Error::source).map(ToString::to_string));
    assert_eq!(probe.arguments(), [EXACT]);
}

#[tokio::test]
async fn a_program_is_shown_the_call_and_over_a_result_the_response() {
    let show = shell(
        r#"input=$(cat | sed 's/"/\\"/g'); printf '{"hookSpecificOutput":{"hookEventName":"%s","additionalContext":"%s"%s}}' "$EVENT" "$input" "$MORE""#,
    );
    let pre = show.clone().env("EVENT", "PreToolUse").env("MORE", r#","permissionDecision":"allow""#);
    let post = show.env("EVENT", "PostToolUse").env("MORE", "");
    let layer = HooksLayer::new().hook(pre.before()).hook(post.after());
    let stack = layer.layer(Router::new().tool(Probe::answering(|_| ToolResponse::text("done")).tool("t")));
    let response = stack.run_call(call("t").with_id("c1").with_context(Context::new().with_session("s1"))).await;
    let common = r#""tool_name":"t","tool_use_id":"c1","tool_input":{"n":1}"#;
    assert_eq!(
        response.remarks(),
        [
            Remark::new("guard", format!(r#"{{"session_id":"s1","hook_event_name":"PreToolUse",{common}}}"#)),
            Remark::new(
                "guard",
                format!(
                    r#"{{"session_id":"s1","hook_event_name":"PostToolUse",{common},"tool_response":{{"content":[{{"type":"text","text":"done"}}]}}}}"#
                )
            ),
        ]
    );
}

#[tokio::test]
async fn a_program_over_a_result_withholds_it() {
    let answer = post(r#","decision":"block","reason":"It has a key in it.""#, r#","additionalContext":"Ask for less.""#);
    let layer = HooksLayer::new().hook(saying(&answer).after());
    let response = through(layer, &Probe::answering(|_| ToolResponse::text("the key"))).await;
    assert_eq!(response.as_text().as_deref(), Some("It has a key in it."));
    assert_eq!((response.refusal().unwrap().kind(), response.refusal().unwrap().by()), (RefusalKind::Denied, "guard"));
    assert_eq!(response.remarks(), [Remark::new("guard", "Ask for less.")]);

    for (answer, why) in [
        (post(r#","decision":"block""#, ""), "`reason` is missing"),
        (post(r#","reason":"no""#, ""), "`reason` stands"),
        (post(r#","decision":"deny","reason":"no""#, ""), "a word that nobody knows"),
        (post("", r#","permissionDecision":"deny""#), "`permissionDecision` stands"),
        (post("", r#","updatedInput":{}"#), "`updatedInput` stands"),
        (ALLOW.to_owned(), "another event"),
    ] {
        let error = Answer::parse(ExternalEvent::PostToolUse, answer.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{answer}: {error}");
    }
}

#[tokio::test]
async fn arguments_that_read_two_ways_are_not_shown() {
    let probe = Probe::new();
    let stack = HooksLayer::new().hook(saying(ALLOW).before()).layer(Router::new().tool(probe.tool("t")));
    for text in [r#"{"path":"a","path":"b"}"#, "[1]", "{", r#"{"a":{"k":1,"\u006b":2}}"#] {
        let response = stack.run_call(ToolCall::new("t", Arguments::from_text(text))).await;
        not_shown(&response, "every key stands once", text);
    }
    assert_eq!(probe.runs(), 0);
}

#[tokio::test]
async fn a_program_gets_no_more_of_the_environment_than_it_is_given() {
    let script = r#"cat >/dev/null; printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","additionalContext":"%s%s"}}' "$GIVEN" "$CARGO_MANIFEST_DIR""#;
    let hook = shell(&format!("PATH=/usr/bin:/bin; {script}")).clear_env().env("GIVEN", "given").dir(std::env::temp_dir());
    let (response, _) = before(hook).await;
    assert_eq!(response.remarks(), [Remark::new("guard", "given")]);
    assert!(!format!("{:?}", shell("secret").env("TOKEN", "hunter2")).contains("hunter2"));
}

/// Pieces of answers, put together in any way.
fn answers() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"hookSpecificOutput\"",
        "\"hookEventName\"",
        "\"PreToolUse\"",
        "\"permissionDecision\"",
        "\"allow\"",
        "\"deny\"",
        "\"ask\"",
        "\"block\"",
        "\"decision\"",
        "\"reason\"",
        "\"updatedInput\"",
        "null",
        "true",
        "1e400",
        "\"",
        "\\",
        " ",
        "\u{0}",
        "é",
    ]);
    prop_oneof![
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat()),
        // A true answer, of which one byte is another.
        (0..ALLOW.len(), any::<u8>()).prop_map(|(at, byte)| {
            let mut bytes = ALLOW.as_bytes().to_vec();
            bytes[at] = byte;
            String::from_utf8_lossy(&bytes).into_owned()
        }),
        (0..ALLOW.len()).prop_map(|end| ALLOW[..end].to_owned()),
    ]
}

proptest! {
    #[test]
    fn a12_only_an_answer_that_says_allow_allows(answer in answers()) {
        if let Ok(parsed) = Answer::parse(ExternalEvent::PreToolUse, answer.as_bytes()) {
            // Whatever is read as an answer is JSON that says the same where it has to be said.
            let json: serde_json::Value = serde_json::from_str(&answer).unwrap();
            let said = json["hookSpecificOutput"]["permissionDecision"].as_str().unwrap();
            let word = match parsed.decision { Decision::Allow => "allow", Decision::Ask => "ask", _ => "deny" };
            prop_assert_eq!(said, word);
            prop_assert_eq!(json["hookSpecificOutput"]["hookEventName"].as_str(), Some("PreToolUse"));
        }
    }

    #[test]
    fn the_parser_takes_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Answer::parse(ExternalEvent::PreToolUse, &bytes);
        let _ = Answer::parse(ExternalEvent::PostToolUse, &bytes);
    }
}

#[tokio::test]
async fn what_a_program_cannot_be_shown_is_refused_also_where_it_fails_open() {
    let guard = ExternalHook::new("guard", "sh").arg("-c").arg("exit 2").max_input(1024);
    let probe = Probe::new();
    let stack = HooksLayer::new().hook(guard.before().fail_open()).layer(Router::new().tool(probe.tool("t")));
    let wide = format!(r#"{{"path":"x","pad":"{}"}}"#, "y".repeat(2048));
    for (text, why) in [(r#"{"path":"a","path":"/etc/shadow"}"#, "every key stands once"), (&wide, "larger than the 1024 bytes")] {
        not_shown(&stack.call_tool("t", Arguments::from_text(text)).await, why, why);
    }
    assert_eq!(probe.runs(), 0);
}
