//! Markers that stand in a text already, and what somebody makes of that.

use proptest::prelude::*;
use toolstack::layer::redact::{Detector, Redactor};

use super::shows_none;

#[test]
fn d05_a_marker_in_the_midst_of_a_secret_hides_none_of_it() {
    let secrets = Redactor::secrets();
    shows_none(
        &secrets,
        &["MIIB", "rest", "words", "hunter"],
        &[
            "-----BEGIN PRIVATE KEY-----\nMIIB\n[redacted:key]\nMIIBrest\n-----END PRIVATE KEY-----",
            r#"password = "[redacted:key] two words""#,
            r#"password = "two [redacted:key] words""#,
            "password: [redacted:jwt] words",
            "password: [redacted:key]words",
            r#"{"password": "[redacted:key]words"}"#,
            r#"say {"password": "[redacted:key]words"} so"#,
            "postgres://ada:hunter[redacted:key]hunter@db/x",
            "Authorization: [redacted:bearer] words",
            "<password>[redacted:key]words</password>",
        ],
    );
    // The marker is a part of the secret.
    let odd = Redactor::new().detector(Detector::literal("vault", "hunter[redacted:key]2"));
    assert_eq!(odd.text("a hunter[redacted:key]2 b"), "a [redacted:vault] b");
    let odd = Redactor::new().detector(Detector::literal("vault", "]hunter2["));
    assert_eq!(odd.text("[redacted:key]hunter2[redacted:key]"), "[redacted:vault]");
}

#[test]
fn what_only_a_marker_shows_is_shown() {
    let words = Redactor::new().detector(Detector::literal("vault", "key")).detector(Detector::literal("other", "redacted"));
    assert_eq!(words.text("a key, redacted"), "a [redacted:vault], [redacted:other]");
    assert_eq!(words.text("[redacted:key]"), "[redacted:key]");
    let keys = Redactor::new().keys(["vault"]).detector(Detector::literal("vault", "hunter2"));
    assert_eq!(keys.text(r#"{"hunter2":"x"}"#), r#"{"[redacted:vault]":"x"}"#);
    assert_eq!(keys.text(r#"{"[redacted:vault]":"x"}"#), r#"{"[redacted:vault]":"x"}"#);
}

#[test]
fn a_detector_that_finds_something_in_whatever_stands_there_hides_all_and_comes_to_an_end() {
    let greedy =
        Redactor::new().detector(Detector::new("last", |text| std::iter::once(text.len().saturating_sub(1)..text.len()).collect()));
    assert_eq!(greedy.text("abc"), "ab[redacted:last]");
    let creeping = Redactor::new().detector(Detector::new("creeps", |text| text.find("]a").map(|at| at..at + 2).into_iter().collect()));
    let got = creeping.text(&format!("[redacted:creeps]{}", "a".repeat(100))).into_owned();
    assert_eq!(got, "[redacted:all]");
    assert_eq!(creeping.text(&got), got);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_secret_is_nowhere_whatever_markers_stand_around_it_and_in_it(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "hunter2", "hunt", "er2", "[redacted:vault]", "[redacted:", "vault]", "]", "[redacted:key]", "password=", "token: ", " ", "\"", "\n",
                "{\"secret\":", "}", "'", "&", ",", "\\", "[", "a",
            ]),
            0..16,
        ),
    ) {
        let redactor = Redactor::new().detector(Detector::literal("vault", "hunter2")).common_keys();
        let given = parts.concat();
        let got = redactor.text(&given).into_owned();
        prop_assert!(!got.contains("hunter2"), "{} -> {}", given, got);
        prop_assert_eq!(redactor.text(&got), got.as_str(), "{}", given);
    }
}
