//! JSON in texts and texts in JSON, as deep as it goes.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolstack::layer::redact::{Detector, Redactor};

use super::shows_none;

fn redactor() -> Redactor {
    Redactor::new().detector(Detector::literal("vault", "hunter2")).common_keys()
}

/// JSON in a string of JSON, so many times.
fn within(mut text: String, depth: usize) -> String {
    for _ in 0..depth {
        text = json!({ "a": text }).to_string();
    }
    text
}

#[test]
fn d05_json_in_the_midst_of_a_text_is_json() {
    for (given, then) in [
        (r#"result: {"password": "x", "n": 1.0} done"#, r#"result: {"password": "[redacted:key]", "n": 1.0} done"#),
        ("{\"token\":1}\n{\"token\":2}\n", "{\"token\":\"[redacted:key]\"}\n{\"token\":\"[redacted:key]\"}\n"),
        ("\u{feff}{\"token\":\"x\"}", "\u{feff}{\"token\":\"[redacted:key]\"}"),
        (
            r#"a [{"note":"\u0068unter2"}] b [INFO] {"note":"hunter2"}"#,
            r#"a [{"note":"[redacted:vault]"}] b [INFO] {"note":"[redacted:vault]"}"#,
        ),
        (r#"event: x{"a":"{\"token\":\"y\"}"}z"#, r#"event: x{"a":"{\"token\":\"[redacted:key]\"}"}z"#),
        (r#"[[[{"token":1}"#, r#"[[[{"token":"[redacted:key]"}"#),
    ] {
        assert_eq!(redactor().text(given), then);
        assert_eq!(redactor().text(then), then);
    }
}

#[test]
fn d05_a_secret_is_found_however_often_it_is_escaped() {
    for depth in 0..12 {
        for inner in [r#"{"password":"hunter3"}"#, r#"{"b":"\u0068unter2"}"#, r#"say {"b":"\u0068unter2", "token":"hunter3"}"#] {
            let text = within(inner.to_owned(), depth);
            let got = redactor().text(&text).into_owned();
            let mut shown = got.clone();
            while let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(&shown) {
                shown = fields.values().next().and_then(Value::as_str).unwrap_or_default().to_owned();
            }
            assert!(!shown.contains("unter") && !got.contains("unter"), "{depth}: {got}");
            assert_eq!(redactor().text(&got), got);
        }
    }
    let harmless = within(r#"{"b":1}"#.to_owned(), 6);
    assert_eq!(redactor().text(&harmless), harmless);
    assert!(redactor().text(&within(r#"{"b":1}"#.to_owned(), 12)).contains("[redacted:deep]"));
}

#[test]
fn d05_escapes_are_read_where_a_text_is_no_json_at_all() {
    shows_none(
        &redactor(),
        &["unter2", "\\u0068", "%68", "%2568", "hunter2"],
        &[
            r"cut {\u0068unter2",
            r"\\u0068\\u0075nter2",
            r#"a \"\x68unter2\" b"#,
            r"say \u{68}unter2",
            "see https://x/?q=%68unter2&b",
            "see https://x/%2568unter2/b",
            "see https://x/%25252568%75nter2/b",
            "&#104;unter2 &#x68;unter2",
            "?%70assword=hunter2",
            "a %22password%22:%22b hunter2 c%22",
        ],
    );
    // Spelled more often than anybody reads: hidden without being read.
    let many = format!("a b%{}68unter2 c", "25".repeat(40));
    assert_eq!(redactor().text(&many), "a [redacted:deep] c");
    let harmless = r"C:\users\x and 100% of \\server\share\\\\\\\\\\\\\\\\\\ &c; %zz";
    assert_eq!(redactor().text(harmless), harmless);
}

#[test]
fn what_is_deep_or_large_is_hidden_whole_and_never_passed() {
    let deep = "[".repeat(50_000) + r#""hunter2""# + &"]".repeat(50_000);
    assert!(!redactor().text(&deep).contains("hunter2"));
    let open = "[".repeat(50_000) + r#"{"password":"hunter3","a":"hunter2""#;
    assert!(!redactor().text(&open).contains("hunter"));
    let small = redactor().max_bytes(20);
    assert_eq!(small.text("short enough"), "short enough");
    assert_eq!(small.text("long enough to be of no use"), "[redacted:size]");
    assert_eq!(small.text("[redacted:size]"), "[redacted:size]");
}

/// What a detector is shown in all, while a text is looked at.
fn shown(text: &str) -> usize {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let counting = Detector::new("counts", move |text| {
        counter.fetch_add(text.len(), Ordering::Relaxed);
        text.match_indices("hunter2").map(|(at, found)| at..at + found.len()).collect()
    });
    let _ = Redactor::new().detector(counting).common_keys().text(text);
    count.load(Ordering::Relaxed)
}

#[test]
fn twice_the_text_is_twice_the_work_whatever_the_text_is() {
    let repeated: [fn(usize) -> String; 12] = [
        |n| "a plain text with a hunter2 in it. ".repeat(n),
        |n| "[redacted:".repeat(n),
        |n| "[redacted:key".repeat(n) + "]",
        |n| "[redacted:key]hunter2[redacted:x]".repeat(n),
        |n| "[[{\"a\":".repeat(n),
        |n| r#"{"password":"x"} "#.repeat(n),
        |n| "password=".repeat(n),
        |n| r"\\\\\u0041".repeat(n),
        |n| "%25".repeat(n),
        |n| "aHVudGVyMg==".repeat(n),
        |n| "token='a\"".repeat(n),
        |n| within("hunter2".to_owned(), 6).repeat(n),
    ];
    for (form, repeated) in repeated.iter().enumerate() {
        let (once, twice) = (shown(&repeated(400)), shown(&repeated(800)));
        assert!(twice <= once * 2 + once / 4 + 4096, "form {form}: {once}, then {twice}");
        assert!(once <= repeated(400).len() * 256 + 65536, "form {form}: {once}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_secret_is_nowhere_in_any_mix_of_forms(
        layers in prop::collection::vec(0..7_usize, 0..6),
        before in "[a-z {\\[\"':=\\\\%]{0,6}",
        after in "[a-z }\\]\"',=\\\\%]{0,6}",
    ) {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let mut text = "hunter2".to_owned();
        for layer in &layers {
            text = match layer {
                0 => json!({ "a": text }).to_string(),
                1 => json!([text]).to_string(),
                2 => format!("so {text} it is"),
                3 => text.bytes().map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") }).collect(),
                4 => format!("data:text/plain;base64,{}", STANDARD.encode(&text)),
                5 => json!({ "token": text }).to_string(),
                _ => Value::from(text).to_string(),
            };
        }
        let text = format!("{before} {text} {after}");
        let got = redactor().text(&text).into_owned();
        prop_assert!(got.contains("[redacted:"), "{} -> {}", text, got);
        prop_assert!(!got.contains("hunter2") && !got.contains("aHVudGVyMg"), "{} -> {}", text, got);
        prop_assert_eq!(redactor().text(&got), got.as_str());
    }
}
