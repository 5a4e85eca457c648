//! Base64 and URIs.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolstack::layer::{
    RedactLayer,
    redact::{Detector, Redactor},
};

use super::{shows_none, through};

fn redactor() -> Redactor {
    Redactor::secrets().detector(Detector::literal("vault", "hunter2"))
}

/// Base64 of this, as it is met.
fn written(bytes: &[u8]) -> Vec<String> {
    let plain = STANDARD.encode(bytes);
    let at = plain.len() / 2;
    vec![
        STANDARD_NO_PAD.encode(bytes),
        URL_SAFE.encode(bytes),
        URL_SAFE_NO_PAD.encode(bytes),
        format!("{}!{}", &plain[..at], &plain[at..]),
        format!("{}\n  {}", &plain[..at], &plain[at..]),
        format!(" {} {}\r\n", &plain[..at], &plain[at..]),
        format!("\u{feff}{plain}"),
        format!("{plain}===="),
        format!("{}{}", STANDARD.encode(b"ab"), plain),
        plain,
    ]
}

async fn blob(data: &str, mime_type: &str) -> Vec<String> {
    let mut got = Vec::new();
    for block in [
        json!({ "type": "resource", "resource": { "uri": "x:", "blob": data, "mimeType": mime_type } }),
        json!({ "type": "image", "data": data, "mimeType": mime_type }),
        json!({ "type": "audio", "data": data, "mimeType": mime_type }),
    ] {
        let answer = json!({ "content": [block] }).to_string();
        let answer: Value = serde_json::from_str(&through(RedactLayer::new(redactor()), &answer).await).unwrap();
        let block = &answer["content"][0];
        got.push(block["data"].as_str().or(block["resource"]["blob"].as_str()).unwrap().to_owned());
    }
    got
}

/// What base64 holds, for whoever is not strict about it.
fn read(encoded: &str) -> String {
    let signs: String = encoded.chars().filter(char::is_ascii_alphanumeric).collect();
    let lenient = STANDARD_NO_PAD.decode(&signs[..signs.len() / 4 * 4]).unwrap_or_default();
    String::from_utf8_lossy(&lenient).into_owned() + encoded
}

#[tokio::test]
async fn d05_a_secret_in_base64_is_found_however_it_is_written() {
    let utf16: Vec<u8> = "say hunter2".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [&b"say hunter2??>"[..], b"say hunter2 \xff\xfe\x00", &utf16, b"{\"password\":\"hunter2\"}", b"aHVudGVyMg=="] {
        for data in written(bytes) {
            for mime_type in ["text/plain", "image/png"] {
                for got in blob(&data, mime_type).await {
                    assert!(!read(&got).contains("hunter2") && !read(&got).contains("aHVudGVyMg"), "{data}\n{got}");
                    assert!(read(&got).contains("redacted"), "{data}\n{got}");
                }
            }
        }
    }
    // What is declared to be base64 and is none.
    for got in blob("hunter2", "text/plain").await.into_iter().chain(blob("say: hunter2", "image/svg+xml").await) {
        assert!(!got.contains("hunter2"), "{got}");
    }
    let image = STANDARD.encode((0_u8..=255).cycle().take(4096).collect::<Vec<_>>());
    for got in blob(&image, "image/png").await {
        assert_eq!(got, image);
    }
}

#[tokio::test]
async fn d05_a_secret_in_a_uri_is_found_in_texts_resources_and_links() {
    for uri in [
        format!("data:text/plain;base64,{}", STANDARD.encode("say hunter2")),
        format!("data:;base64,{}", URL_SAFE_NO_PAD.encode("say hunter2 ~~~")),
        format!("data:text/plain;charset=utf-8;base64,{}", STANDARD.encode("hunter2").replace('=', "%3D")),
        "data:text/plain,say%20hunter2".to_owned(),
        "data:text/plain,%68%75%6e%74%65%72%32".to_owned(),
        "https://example.com/%68unter2".to_owned(),
        "https://example.com/%2568unter2?a".to_owned(),
        "https://example.com/%252568unter2?a".to_owned(),
        "https://ada:hunter2@example.com/".to_owned(),
        "https://ada:hunt@hunter2@example.com/".to_owned(),
        "https://hunter2@example.com/".to_owned(),
        "postgres://ada:hunter2/x?y@db:5432/z".to_owned(),
        "https://example.com/#access_token=hunter2&b=c".to_owned(),
        "https://example.com/?a=b&%61pi_key=hunter2".to_owned(),
        "file:///x;token=hunter2".to_owned(),
    ] {
        let blocks = json!([
            { "type": "text", "text": format!("see {uri} and more") },
            { "type": "resource_link", "uri": uri, "name": uri, "description": format!("<{uri}>") },
            { "type": "resource", "resource": { "uri": uri, "text": format!("![x]({uri})") } },
        ]);
        // The detectors alone, without the word itself.
        let word = !uri.contains("hunter2");
        let redactor = if word { redactor() } else { Redactor::secrets().detector(Detector::literal("vault", "say hunter2")) };
        let redactor = if uri.contains("say%20") { self::redactor() } else { redactor };
        let got = through(RedactLayer::new(redactor), &json!({ "content": blocks }).to_string()).await;
        for form in ["hunter2", "%68unter2", "%2568unter2", "%252568unter2", "aHVudGVy", "c2F5IGh1bnRlcjI", "%68%75%6e"] {
            assert!(!got.contains(form), "{uri}\n{got}");
        }
        assert_eq!(got.matches("[redacted:").count(), 6, "{uri}\n{got}");
    }
}

#[test]
fn base64_in_the_midst_of_a_text_is_read() {
    let folded = STANDARD.encode(format!("{} hunter2 {}", "a".repeat(100), "b".repeat(100)));
    let lines: Vec<&str> = folded.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    shows_none(
        &redactor(),
        &["aHVudGVy", "h1bnRlcj", "odW50ZXIy"],
        &[
            &format!("Basic {}", STANDARD.encode("ada:hunter2")),
            &format!("k8s says x={} so", STANDARD.encode("hunter2")),
            &format!("password{}", STANDARD.encode("hunter2")),
            &format!("path/{}/x", STANDARD.encode("hunter2 ")),
            &STANDARD.encode(STANDARD.encode("hunter2")),
            &format!("one:\n{}\ntwo", lines.join("\n")),
            &format!("one:\n    {}\ntwo", lines.join("\r\n    ")),
            &json!({ "a": STANDARD.encode(r#"{"password":"hunter2"}"#) }).to_string(),
        ],
    );
    let harmless = "commit 3f6e5e8efa0676d9489f7527001c145bdf029ef3 of internationalization/README_and_more+than/that";
    assert_eq!(redactor().text(harmless), harmless);
}

proptest! {
    #[test]
    fn a_secret_is_nowhere_in_what_base64_holds(before in prop::collection::vec(any::<u8>(), 0..40), after in prop::collection::vec(any::<u8>(), 0..40), form in 0..10_usize) {
        let data = written(&[&before[..], b"hunter2", &after[..]].concat()).swap_remove(form);
        let answer = json!({ "content": [{ "type": "image", "data": data, "mimeType": "text/plain" }] }).to_string();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let got = runtime.block_on(through(RedactLayer::new(redactor()), &answer));
        let got: Value = serde_json::from_str(&got).unwrap();
        let got = got["content"][0]["data"].as_str().unwrap();
        prop_assert!(!read(got).contains("hunter2"), "{} -> {}", data, got);
    }
}
