//! Keys of many words, in every style and in every form that a value can stand under one.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolstack::layer::redact::Redactor;

use super::shows_none;

const SECRET_KEYS: &[&str] = &[
    "password",
    "db_password",
    "userPassword",
    "DB-PASSWORD",
    "DB_PASSWORD_2",
    "dbpassword",
    "spring.datasource.password",
    "PassWord",
    "p_a_s_s_w_o_r_d",
    "passwordHash",
    "apiKeyProd",
    "APIKey",
    "apikey",
    "API_KEY",
    "x-api-key",
    "X-Api-Key-2",
    "myApiKeys",
    "aws.secretAccessKey",
    "AWSSecretKey",
    "accessToken",
    "access_tokens",
    "oauth2Token",
    "csrf-token",
    "Set-Cookie",
    "Proxy-Authorization",
    "clientSecret",
    "clientsecret",
    "smtp_pass",
    "privateKeyPem",
    "gitCredentials",
    "SharedAccessKey",
];

const HARMLESS_KEYS: &[&str] = &[
    "passwordless",
    "tokenizer",
    "tokens_used",
    "max_tokens",
    "maxTokens",
    "token_count",
    "token_type",
    "tokenEndpoint",
    "next_page_token",
    "nextPageToken",
    "eos_token",
    "progressToken",
    "password_policy",
    "secret_name",
    "compass",
    "first_pass",
    "keyboard",
    "monkey",
    "public_key",
    "secretary",
    "authority",
    "author",
    "session_id",
    "bypass",
];

/// A value under a key, in each form; the value is one word, since not all of them can hold more.
fn forms(key: &str) -> Vec<String> {
    vec![
        json!({ key: "hunter2" }).to_string(),
        json!({ "a": [{ key: { "deep": ["hunter2"] } }] }).to_string(),
        json!({ "a": json!({ key: "hunter2" }).to_string() }).to_string(),
        format!("result: {} done", json!({ key: "hunter2" })),
        format!("{key}=hunter2"),
        format!("{key} = hunter2"),
        format!("so {key}=hunter2 it is"),
        format!("so {key}: hunter2, it is"),
        format!("so {key} => hunter2"),
        format!("user: ada\n  {key}: hunter2\nage: 7"),
        format!("https://example.com/x?user=ada&{key}=hunter2&age=7#top"),
        format!("https://example.com/x#{key}=hunter2"),
        format!("GET / HTTP/1.1\r\nHost: x\r\n{key}: hunter2\r\n\r\n"),
        format!("curl -H '{key}: hunter2' https://example.com"),
        format!("run --{key} hunter2 --now"),
        format!("run --{key}=hunter2 --now"),
        format!("<{key}>hunter2</{key}>"),
        format!("{{'{key}': 'hunter2'}}"),
        format!("config['{key}'] = \"hunter2\""),
        format!("**{key}:** hunter2"),
        format!("Server=db;{key}=hunter2;Port=1"),
    ]
}

#[test]
fn d05_a_value_is_hidden_under_a_key_of_several_words_in_every_style_and_form() {
    let redactor = Redactor::new().common_keys();
    for key in SECRET_KEYS {
        let forms = forms(key);
        shows_none(&redactor, &["hunter2"], &forms.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn a_key_that_only_sounds_like_a_secret_hides_nothing() {
    let redactor = Redactor::new().common_keys();
    for text in HARMLESS_KEYS.iter().flat_map(|key| forms(key)) {
        assert_eq!(redactor.text(&text), text);
    }
}

#[test]
fn a_word_of_ones_own_counts_as_the_common_ones_do_and_a_key_can_be_excepted() {
    let redactor = Redactor::new().keys(["user name", "ssn"]).except_keys(["ssn_region", "File-Name"]);
    assert_eq!(redactor.text(r#"{"lastUserName":"a","SSN":1,"ssn.last4":2}"#), {
        r#"{"lastUserName":"[redacted:key]","SSN":"[redacted:key]","ssn.last4":"[redacted:key]"}"#
    });
    let shown = r#"{"SsnRegion":"x","assn":1,"user":{"name":"a"},"file_name":"a"}"#;
    assert_eq!(redactor.text(shown), shown);
}

#[test]
fn numbers_booleans_and_lists_are_hidden_under_a_key_and_what_shows_nothing_is_not() {
    let redactor = Redactor::new().common_keys();
    let given = r#"{"pinPassword": 4711, "otp":-0.5e3,"secret":true,"tokens_secret":[1,"a"],"password":null,"pwd":""}"#;
    assert_eq!(redactor.text(given), {
        r#"{"pinPassword": "[redacted:key]", "otp":"[redacted:key]","secret":"[redacted:key]","tokens_secret":"[redacted:key]","password":null,"pwd":""}"#
    });
    shows_none(
        &redactor,
        &["4711", "4712"],
        &["log: 'otp': 4711, and otp=4712", "otp: 4711\nOTP: 4712", r#"cut off: {"otp":4711,"password":4712"#],
    );
}

#[test]
fn what_has_a_name_elsewhere_is_hidden_by_that_name() {
    let redactor = Redactor::new().common_keys();
    for (given, then) in [
        (r#"[{"name":"DB_PASSWORD","value":"x"}]"#, r#"[{"name":"DB_PASSWORD","value":"[redacted:key]"}]"#),
        (r#"{"value":["x"],"key":"apiKey"}"#, r#"{"value":"[redacted:key]","key":"apiKey"}"#),
        (r#"{"headers":[["x-api-key","x"],["accept","y"]]}"#, r#"{"headers":[["x-api-key","[redacted:key]"],["accept","y"]]}"#),
        (r#"{"name":"user","value":"x"}"#, r#"{"name":"user","value":"x"}"#),
        (r#"{"required":["password","email"],"name":"x"}"#, r#"{"required":["password","email"],"name":"x"}"#),
        (r#"a {"value":"x","name":"token"} b"#, r#"a {"value":"[redacted:key]","name":"token"} b"#),
        (
            "env:\n  - name: DB_PASSWORD\n    value: x y\n  - name: PORT\n    value: 1\n",
            "env:\n  - name: DB_PASSWORD\n    value: [redacted:key]\n  - name: PORT\n    value: 1\n",
        ),
        (
            r#"<add key="ApiKey" value="x"/><add key="Port" value="1"/>"#,
            r#"<add key="ApiKey" value="[redacted:key]"/><add key="Port" value="1"/>"#,
        ),
        (r#"cut: {"a":[{"value":"x","name":"token"},{"na"#, r#"cut: {"a":[{"value":"[redacted:key]","name":"token"},{"na"#),
        (r#"cut: [{"name":"token","value":"x"},{"na"#, r#"cut: [{"name":"token","value":"[redacted:key]"},{"na"#),
    ] {
        assert_eq!(redactor.text(given), then);
        assert_eq!(redactor.text(then), then);
    }
}

#[test]
fn secrets_as_keys_are_hidden_however_many_become_the_same() {
    let redactor = Redactor::new().detector(toolstack::layer::redact::Detector::literal("vault", "hunter2"));
    let given: serde_json::Map<String, Value> = (0..500).map(|n| (format!("{}hunter2", " ".repeat(n)), json!(n))).collect();
    let got = redactor.text(&Value::from(given).to_string().replace("  ", "")).into_owned();
    assert!(!got.contains("hunter2"));
    let same = format!("{{{}}}", (0..500).map(|n| format!(r#""hunter2":{n}"#)).collect::<Vec<_>>().join(","));
    let got = redactor.text(&same).into_owned();
    assert_eq!(serde_json::from_str::<serde_json::Map<String, Value>>(&got).unwrap().len(), 500);
}

proptest! {
    #[test]
    fn a_secret_word_is_found_among_others_in_any_style(
        before in prop::collection::vec("[a-z]{1,8}", 0..3),
        secret in prop::sample::select(vec!["password", "secret", "api key", "access token", "private key"]),
        after in prop::sample::select(vec!["", "prod", "old", "two", "backup"]),
        style in 0..5_usize,
    ) {
        let words: Vec<&str> = before.iter().map(String::as_str).chain(secret.split(' ')).chain([after]).filter(|word| !word.is_empty()).collect();
        let capital = |word: &&str| word[..1].to_uppercase() + &word[1..];
        let key = match style {
            0 => words.join("_"),
            1 => words.join("-"),
            2 => words.join("."),
            3 => words.join("_").to_uppercase(),
            _ => words.iter().map(capital).collect(),
        };
        let redactor = Redactor::new().common_keys();
        for text in forms(&key) {
            let got = redactor.text(&text);
            prop_assert!(!got.contains("hunter2"), "{} -> {}", text, got);
        }
    }
}
