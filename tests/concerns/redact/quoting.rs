//! Values in quotes and out of them, in the languages that values are written in.

use proptest::prelude::*;
use toolstack::layer::redact::Redactor;

use super::shows_none;

#[test]
fn d05_a_value_of_several_words_is_hidden_to_its_end() {
    let redactor = Redactor::new().common_keys();
    shows_none(
        &redactor,
        &["one", "two", "three"],
        &[
            r#"password = "one two three""#,
            "password = 'one two three'",
            "password = `one two three`",
            r#"password = "one \" two \\\" three""#,
            "password = 'one '' two three'",
            r#"so password="one two three" it is"#,
            r#"Set password "one two three" first"#,
            "CREATE ROLE ada PASSWORD 'one two three';",
            "the password `one two three` is old",
            "password: “one two three”",
            "password: 'one two three' # old",
            "password: one two three",
            "export DB_PASSWORD='one two three'",
            "export DB_PASSWORD=one\\ two\\ three",
            r#"run --password "one two three" --now"#,
            r#"run --password="one two three" --now"#,
            "run --password 'one two'\" three\"",
            r#"docker run -e "DB_PASSWORD=one two three" x"#,
            "curl -H 'Authorization: Bearer one two three' x",
            "Authorization: Digest one, two=three",
            "so Cookie: a=one; b=two; c=three",
            r#"const password: string = "one two three";"#,
            r#"let password: &str = "one two three";"#,
            r#"password = b"one two three""#,
            r#"password = "one " + "two " + 'three'"#,
            "password = \"\"\"one\ntwo\nthree\"\"\"",
            "password: |\n  one\n  two\n\n  three\n",
            "a:\n  password: >-\n    one two\n    three\n  b: c",
            "credentials:\n  user: one\n  pass: two\n  more: [three]\nnext: 1",
            "passwords:\n- one\n- two\n- three\nnext: 1",
            "<password>one two\nthree</password>",
            "<a:password><![CDATA[one two three]]></a:password>",
            r#"os.environ["PASSWORD"] = "one two three""#,
            "user[password]='one two three'",
            r#"{:password => "one two three"}"#,
            "API Key: 'one two three'",
            r#"setenv("DB_PASSWORD", "one two three", 1)"#,
            "[('Authorization', 'Bearer one two three')]",
            "cut off: password = \"one two\nthree",
            r#"say {"password": "one two three", oops"#,
            r#"say {"password": {"a": "one", "b": ["two", "three"#,
            r#"say {\"password\": \"one \\\" two three\", \"a\": 1"#,
            r#"say {\\\"password\\\": \\\"one two three\\\", \\\"a\\\": 1"#,
            "say {&quot;password&quot;: &quot;one two three&quot;}",
            "var x = {password: {a: 'one', b: 'two'}, secret: [three]}",
        ],
    );
}

#[test]
fn what_stands_beside_a_value_stays() {
    let redactor = Redactor::new().common_keys();
    for (given, then) in [
        (r#"a password="x y", b="c d""#, r#"a password="[redacted:key]", b="c d""#),
        ("a password=x, b=c; d", "a password=[redacted:key], b=c; d"),
        ("f(password=x, b=c)", "f(password=[redacted:key], b=c)"),
        ("?token=x&b=c#d", "?token=[redacted:key]&b=c#d"),
        ("a token=x&y z", "a token=[redacted:key] z"),
        ("password: x y\nb: c", "password: [redacted:key]\nb: c"),
        (r#"log: {"password": 12, "b": 1} done"#, r#"log: {"password": "[redacted:key]", "b": 1} done"#),
        ("password=\nb=c", "password=\nb=c"),
        ("password: null\nb: c", "password: null\nb: c"),
        ("We use cookies: they help. More: none", "We use cookies: [redacted:key] help. More: none"),
        ("use --token <token> --all", "use --token [redacted:key] --all"),
        ("class Password::Of { }", "class Password::Of { }"),
        ("vault token://x/y", "vault token://x/y"),
        ("Enter your password:\nThanks.", "Enter your password:\nThanks."),
        ("The password is checked, the token too.", "The password is checked, the token too."),
    ] {
        assert_eq!(redactor.text(given), then);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_value_in_quotes_is_nowhere_whatever_is_in_it(
        value in "[a-z0-9 ,;:&=#'\"`\\\\{}\\[\\]()<>/@.é-]{1,24}",
        quote in prop::sample::select(vec!['"', '\'', '`']),
        form in 0..6_usize,
    ) {
        let secret = format!("zq{value}qz");
        let quoted: String = secret.chars().flat_map(|c| if c == quote || c == '\\' { vec!['\\', c] } else { vec![c] }).collect();
        let quoted = format!("{quote}{quoted}{quote}");
        let text = match form {
            0 => format!("password = {quoted}"),
            1 => format!("a b password: {quoted}, c: d"),
            2 => format!("run --password {quoted} --now"),
            3 => format!("export DB_PASSWORD={quoted}\nA=b"),
            4 => format!("{{'password': {quoted}, 'a': 1}}"),
            _ => format!("x?a=1 password={quoted}"),
        };
        let got = Redactor::new().common_keys().text(&text).into_owned();
        prop_assert!(!got.contains("zq") && !got.contains("qz"), "{} -> {}", text, got);
        prop_assert_eq!(Redactor::new().common_keys().text(&got), got.as_str());
    }

    #[test]
    fn a_value_without_quotes_is_nowhere_up_to_its_blank(value in "[a-z0-9,;:&=#'\"`\\\\{}()<>/@.é-]{0,24}", line in any::<bool>()) {
        let secret = format!("zq{value}qz");
        let text = if line { format!("a=b\npassword = {secret}\nc=d") } else { format!("so password={secret} it is") };
        let got = Redactor::new().common_keys().text(&text).into_owned();
        prop_assert!(!got.contains(&secret), "{} -> {}", text, got);
        prop_assert_eq!(Redactor::new().common_keys().text(&got), got.as_str());
    }
}
