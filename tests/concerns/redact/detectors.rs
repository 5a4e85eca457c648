//! The detectors that are ready, and those of others.

use toolstack::layer::redact::{Detector, Redactor};

#[test]
fn the_ready_detectors_find_what_they_say_and_leave_the_rest() {
    let both = Redactor::secrets().and(&Redactor::personal());
    let x = |len: usize| "a1B2c3D4e5".repeat(8)[..len].to_owned();
    for (name, text) in [
        ("private_key", "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----".to_owned()),
        ("private_key", "-----BEGIN OPENSSH PRIVATE KEY-----\ncut off here".to_owned()),
        ("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-_123".to_owned()),
        ("bearer", format!("bearer {}", x(24))),
        ("key", "Authorization: Basic dXNlcjpwYXNz".to_owned()),
        ("login", "curl -s -u ada:hunter2 https://example.com".to_owned()),
        ("login", "machine example.com login ada password hunter2".to_owned()),
        ("aws", "AKIAIOSFODNN7EXAMPLE".to_owned()),
        ("key", format!("aws_secret_access_key = {}", x(40))),
        ("github", format!("ghp_{}", x(36))),
        ("github", format!("github_pat_{}", x(40))),
        ("gitlab", format!("glpat-{}", x(20))),
        ("slack", "xoxb-123456789012-abcdefghijkl".to_owned()),
        ("slack", format!("https://hooks.slack.com/services/T00000000/B00000000/{}", x(24))),
        ("google", format!("AIza{}", x(35))),
        ("google", format!("ya29.{}", x(40))),
        ("stripe", format!("sk_live_{}", x(24))),
        ("model_provider", format!("sk-ant-api03-{}", x(40))),
        ("package_registry", format!("npm_{}", x(36))),
        ("mail_provider", format!("SG.{}.{}", x(22), x(43))),
        ("url_password", "postgres://ada:hunter2@db:5432/x".to_owned()),
        ("url_password", "ada:hunter2@tcp(db:3306)/x".to_owned()),
        ("key", "password = hunter2".to_owned()),
        ("key", r#"the config has "api_key": "hunter2", among others"#.to_owned()),
        ("email", "Ada.Lovelace+x@mail.example.co.uk".to_owned()),
        ("phone", "+44 20 7946 0958".to_owned()),
        ("us_ssn", "078-05-1120".to_owned()),
        ("card", "4111 1111 1111 1111".to_owned()),
        ("iban", "DE89 3704 0044 0532 0130 00".to_owned()),
    ] {
        for around in ["$", "é$ü", "see: $.", "(\"$\")"] {
            let got = both.text(&around.replace('$', &text)).into_owned();
            assert!(got.contains(&format!("[redacted:{name}]")), "{name}: {text} -> {got}");
        }
    }
    for harmless in [
        "The bearer certificates are basic knowledge.",
        "commit 3f6e5e8efa0676d9489f7527001c145bdf029ef3",
        "550e8400-e29b-41d4-a716-446655440000",
        "2026-11-30T18:40:00Z, 192.168.0.1, 1234567890123",
        "task-management for max_tokens and next_page_token",
        "https://example.com/a@b?x=1#y",
        "000-12-3456 and 123-00-4567",
    ] {
        assert_eq!(both.text(harmless), harmless);
    }
}

#[test]
fn j05_a_pattern_that_is_none_is_an_error_and_a_detector_that_finds_nonsense_does_no_harm() {
    let error = Detector::regex("mine", "(").unwrap_err();
    assert!(error.to_string().starts_with("the pattern of the detector `mine`"), "{error}");
    assert!(Detector::regex("mine", r"(a{1000}){1000}").is_err());
    #[allow(clippy::reversed_empty_ranges, reason = "that is the nonsense")]
    let nonsense = Detector::new("a b]c", |_| vec![1..2, 5..2, 3..3, 90..100, 2..usize::MAX]);
    assert_eq!(nonsense.name(), "abc");
    let redactor = Redactor::new().detector(nonsense);
    assert_eq!(redactor.text("éé"), "[redacted:abc][redacted:abc]");
    assert_eq!(Redactor::new().detector(Detector::literal("none", "")).text("abc"), "abc");
    // A marker that somebody forged hides nothing.
    let forged = Redactor::new().detector(Detector::literal("vault", "hunter2"));
    assert_eq!(forged.text("[redacted:hunter2]"), "[redacted:[redacted:vault]]");
}
