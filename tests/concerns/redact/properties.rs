//! A secret is nowhere in the output, redacting twice is redacting once, and nothing else changes.

use proptest::prelude::*;
use serde_json::Value;
use toolstack::layer::redact::{Detector, Redactor};

use super::{SECRET, places::placed, redactor, texts};

#[test]
fn a_secret_written_with_escapes_is_found_and_keys_that_become_the_same_stay_apart() {
    let redactor = Redactor::new().detector(Detector::literal("vault", "hunter2")).common_keys();
    for json in [
        r#"{"a":"\u0068unter2"}"#,
        r#"{"a":"\ud800 hunter2"}"#,
        r#"{"a":"\ud83d\ude00\u0068\u0075nter2"}"#,
        r#"{"p\u0061ssword":"hunter3"}"#,
    ] {
        let got = redactor.text(json).into_owned();
        assert!(got.contains("[redacted:") && serde_json::from_str::<Value>(&got).is_ok(), "{json}: {got}");
    }
    let got = redactor.text(r#"{"hunter2":1,"hunter2 ":2,"[redacted:vault]":3}"#).into_owned();
    assert_eq!(serde_json::from_str::<Value>(&got).unwrap().as_object().unwrap().len(), 3, "{got}");
    assert_eq!(redactor.text(&got), got);
    let deep = "[".repeat(20_000) + r#""hunter2""# + &"]".repeat(20_000);
    assert!(!redactor.text(&deep).contains("hunter2"));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z \"\\\\\u{e9}]{0,6}".prop_map(Value::from),
        Just(Value::from("$")),
        Just(Value::from("a$b$$")),
        Just(Value::from("{\"b\":[\"$json\"],\"password\":\"$json\"}")),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let key = prop_oneof![Just("$".to_owned()), Just("Pass_Word".to_owned()), "[a-c$]{1,3}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// Redaction without any regard for speed and exactness.
fn naive(value: &Value) -> Value {
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => Value::from(naive(&inner).to_string()),
            _ => Value::from(text.replace("hunter2", "[redacted:vault]")),
        },
        Value::Array(items) => items.iter().map(naive).collect(),
        Value::Object(fields) => {
            let mut out = serde_json::Map::new();
            for (key, value) in fields {
                let key = key.replace("hunter2", "[redacted:vault]");
                let hidden = key == "Pass_Word" || key == "password";
                let instead = match value {
                    Value::Null => Value::Null,
                    Value::String(text) if text.is_empty() => Value::from(""),
                    _ => Value::from("[redacted:key]"),
                };
                out.insert(key, if hidden { instead } else { naive(value) });
            }
            out.into()
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_secret_is_nowhere_in_redacted_json_and_redacting_twice_is_redacting_once(value in json_value()) {
        let redactor = redactor();
        let given = placed(&value, SECRET).to_string();
        let got = redactor.text(&given).into_owned();
        let read: Value = serde_json::from_str(&got).unwrap();
        let mut all = Vec::new();
        texts(&read, &mut all);
        prop_assert!(!all.iter().any(|text| text.contains(SECRET)), "{given} -> {got}");
        prop_assert_eq!(redactor.text(&got), got.as_str());
    }

    #[test]
    fn json_comes_out_as_it_would_field_by_field(value in json_value(), pretty in any::<bool>()) {
        let value = placed(&value, "hunter2");
        let given = if pretty { format!("{value:#}") } else { value.to_string() };
        let got = Redactor::new().detector(Detector::literal("vault", "hunter2")).keys(["password"]).text(&given).into_owned();
        prop_assert_eq!(serde_json::from_str::<Value>(&got).unwrap(), naive(&value), "{}", given);
        if naive(&value) == value {
            prop_assert_eq!(got, given);
        }
    }

    #[test]
    fn whatever_a_text_is_made_of_it_comes_out_the_same_twice(
        parts in prop::collection::vec(
            prop_oneof![
                "[ \"'`\\\\{}\\[\\]()<>:=,;&%#/@.|+~*\n\té“”0-9a-f-]{0,6}",
                prop::sample::select(vec![
                    "password", "token", "api key", "name", "value", "--", "//", "<secret>", "</secret>", "\\u0061", "\\\"", "%25", "&quot;", "null",
                    "[redacted:key]", "bearer", "Authorization: ", "aHVudGVyMg==", "\r\n", "\"\"\"", "'", "- ", "|\n", "https://", "\u{feff}", "::",
                ]).prop_map(str::to_owned),
            ],
            0..14,
        )
    ) {
        let redactor = Redactor::secrets().and(&Redactor::personal()).detector(Detector::literal("vault", "hunter2"));
        let given = parts.concat();
        let once = redactor.text(&given).into_owned();
        prop_assert!(!once.contains("hunter2"), "{} -> {}", given, once);
        prop_assert_eq!(redactor.text(&once), once.as_str(), "{}", given);
    }

    #[test]
    fn redacting_a_text_twice_is_redacting_it_once(
        parts in prop::collection::vec(
            prop_oneof![
                "[ -~\u{e9}\n]{0,12}",
                Just("hunter2".to_owned()),
                Just("4111 1111 1111 1111".to_owned()),
                Just("a@b.co".to_owned()),
                Just("password=".to_owned()),
                Just("[redacted:".to_owned()),
                Just("[redacted:email]".to_owned()),
                Just("{\"token\":".to_owned()),
                Just("bearer ".to_owned()),
                Just("+44 20 7946 0958".to_owned()),
            ],
            0..10,
        )
    ) {
        let redactor = Redactor::secrets().and(&Redactor::personal()).detector(Detector::literal("vault", "hunter2"));
        let given = parts.concat();
        let once = redactor.text(&given).into_owned();
        prop_assert!(!once.contains("hunter2"), "{} -> {}", given, once);
        prop_assert_eq!(redactor.text(&once), once.as_str());
    }
}
