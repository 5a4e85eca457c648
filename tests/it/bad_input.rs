//! Input that is broken, hostile or merely odd: each a clear, typed error or a response; nothing is lost, nothing panics.

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    model::{Arguments, ArgumentsError, Content, NameError, RawObject, SchemaError, ToolList, ToolName, ToolResult, ToolSpec},
    testing::Probe,
    tool::sync_tool_fn,
};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// JSON as somebody might write it, with what careless hands lose.
fn json_text() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        Just("1e400".to_owned()),
        Just("-0.0".to_owned()),
        Just("123456789012345678901234567890".to_owned()),
        Just("0.123456789012345678901234567890".to_owned()),
    ];
    let text = any::<String>().prop_map(|text| Value::String(text).to_string());
    let leaf = prop_oneof![Just("null".to_owned()), Just("true".to_owned()), number, text.clone()];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map(text.clone(), inner, 0..6).prop_map(|fields| {
                let fields: Vec<_> = fields.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// Fields that this crate does not know, in an order of their own.
fn unknown_fields() -> impl Strategy<Value = String> {
    prop::collection::btree_map("x[a-z]{1,6}", json_text(), 0..4)
        .prop_map(|fields| fields.into_iter().map(|(key, value)| format!(",\"{key}\":{value}")).collect())
}

fn leaves_as_it_came<T: DeserializeOwned + serde::Serialize>(json: &str) -> Result<(), TestCaseError> {
    let value: T = serde_json::from_str(json).map_err(|error| TestCaseError::fail(format!("{error}: {json}")))?;
    prop_assert_eq!(serde_json::to_string(&value).unwrap(), json);
    Ok(())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn any_text_as_arguments_is_read_or_refused_and_never_changed(text in prop_oneof![any::<String>(), json_text()]) {
        let arguments = Arguments::from_text(text.as_str());
        prop_assert_eq!(arguments.as_json().unwrap(), &text);
        match arguments.value() {
            // Where it can be read, it is what serde_json reads.
            Ok(value) => prop_assert_eq!(value, &serde_json::from_str::<Value>(&text).unwrap()),
            Err(error) => prop_assert!(matches!(error, ArgumentsError::Json(_))),
        }
        let object = matches!(arguments.value(), Ok(Value::Object(_)));
        prop_assert_eq!(arguments.object().is_ok(), object);
        // A type that is not an object is never filled.
        if !text.trim_start().starts_with('{') {
            prop_assert!(arguments.deserialize::<Value>().is_err());
        }
        // Broken text does not get into other JSON.
        if let Ok(written) = serde_json::to_string(&arguments) {
            prop_assert!(serde_json::from_str::<&RawValue>(&written).is_ok());
        }
    }

    #[test]
    fn any_call_has_a_response(name in any::<String>(), text in prop_oneof![any::<String>(), json_text()]) {
        let probe = Probe::new();
        let stack = Router::new().tool(probe.tool("probe")).tool(sync_tool_fn("typed", |_: serde_json::Map<String, Value>| "ran"));
        let response = runtime().block_on(stack.call_tool(&name, Arguments::from_text(text.as_str())));
        if name != "probe" && name != "typed" {
            prop_assert_eq!(response.refusal().map(|refusal| refusal.kind()), Some(RefusalKind::UnknownTool));
        }
        let response = runtime().block_on(stack.call_tool("typed", Arguments::from_text(text.as_str())));
        match serde_json::from_str::<serde_json::Map<String, Value>>(&text) {
            Ok(_) => prop_assert!(response.is_completed()),
            Err(_) => prop_assert_eq!(response.refusal().map(|refusal| refusal.kind()), Some(RefusalKind::InvalidArguments)),
        }
    }

    #[test]
    fn any_bytes_are_read_as_each_type_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), json in json_text()) {
        for input in [&bytes[..], json.as_bytes()] {
            let _ = serde_json::from_slice::<ToolCall>(input);
            let _ = serde_json::from_slice::<ToolResponse>(input);
            let _ = serde_json::from_slice::<ToolResult>(input);
            let _ = serde_json::from_slice::<Content>(input);
            let _ = serde_json::from_slice::<ToolSpec>(input);
            let _ = serde_json::from_slice::<ToolList>(input);
            let _ = serde_json::from_slice::<ToolName>(input);
            if let Ok(object) = serde_json::from_slice::<RawObject>(input) {
                let written = serde_json::to_string(&object).unwrap();
                prop_assert_eq!(&serde_json::from_str::<RawObject>(&written).unwrap(), &object);
            }
        }
    }

    #[test]
    fn what_is_well_formed_leaves_as_it_came(unknown in unknown_fields(), meta in json_text(), text in any::<String>(), value in json_text()) {
        let text = Value::String(text).to_string();
        let meta = format!(r#"{{"k":{meta}}}"#);
        leaves_as_it_came::<Content>(&format!(r#"{{"type":"text","text":{text}{unknown},"_meta":{meta}}}"#))?;
        leaves_as_it_came::<Content>(&format!(r#"{{"type":"resource_link","uri":{text},"name":{text}{unknown}}}"#))?;
        leaves_as_it_came::<ToolResponse>(&format!(
            r#"{{"resultType":"complete","content":[{{"type":"image","data":{text},"mimeType":{text}{unknown}}}],"structuredContent":{value},"isError":true{unknown},"_meta":{meta}}}"#
        ))?;
        leaves_as_it_came::<ToolSpec>(&format!(
            r#"{{"name":"t","description":{text},"inputSchema":{{"type":"object","x":{value}}}{unknown},"_meta":{meta}}}"#
        ).replace(r#""x":1e400"#, r#""x":1"#)).or_else(|error| {
            // A schema has to be readable; everything else about it is kept.
            if Arguments::from_text(value.as_str()).value().is_err() { Ok(()) } else { Err(error) }
        })?;
        leaves_as_it_came::<ToolCall>(&format!(r#"{{"id":{text},"name":"t","arguments":{value}{unknown},"_meta":{meta}}}"#))?;
    }

    #[test]
    fn a_name_follows_the_rule_or_says_where_it_does_not(name in prop_oneof![any::<String>(), "[A-Za-z0-9_.-]{0,200}"]) {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        match ToolName::new(&name) {
            Ok(kept) => prop_assert!(kept == *name && (1..=128).contains(&name.len()) && name.chars().all(allowed)),
            Err(NameError::Empty) => prop_assert!(name.is_empty()),
            Err(NameError::TooLong { length, .. }) => prop_assert!(length == name.len() && length > 128),
            Err(NameError::Character { character, position, .. }) => {
                prop_assert!(!allowed(character) && name[position..].starts_with(character));
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn a_prefix_and_a_name_make_a_name_or_an_error(prefix in any::<String>(), long in "[a-z]{1,128}") {
        let inner = Router::new().tool(sync_tool_fn(&long, || "ran"));
        match Router::new().try_nest(&prefix, inner) {
            Ok(router) => {
                let outside = format!("{prefix}.{long}");
                prop_assert!(ToolName::new(&outside).is_ok());
                prop_assert!(runtime().block_on(router.call_tool(&outside, ())).is_completed());
            }
            Err(_) => prop_assert!(ToolName::new(format!("{prefix}.{long}")).is_err() || ToolName::new(&prefix).is_err()),
        }
    }
}

fn deep(open: &str, close: &str, depth: usize) -> String {
    open.repeat(depth) + "1" + &close.repeat(depth)
}

#[test]
fn nesting_of_ten_thousand_is_refused_where_it_is_read_and_kept_where_it_is_not() {
    let nested = deep("[", "]", 10_000);
    assert!(Arguments::from_text(nested.as_str()).value().unwrap_err().to_string().contains("recursion limit"));
    let arguments = Arguments::from_text(format!(r#"{{"a":{nested}}}"#));
    assert!(arguments.object().is_err());
    assert!(arguments.deserialize::<serde_json::Map<String, Value>>().is_err());

    let object = deep(r#"{"a":"#, "}", 10_000);
    let response = format!(
        r#"{{"resultType":"complete","content":[{{"type":"new","x":{nested}}}],"structuredContent":{object},"_meta":{{"k":{nested}}}}}"#
    );
    let kept: ToolResponse = serde_json::from_str(&response).unwrap();
    assert_eq!(serde_json::to_string(&kept.clone()).unwrap(), response);
    assert!(!format!("{kept:?}").is_empty());
    drop(kept);

    let schema = format!(r#"{{"name":"t","inputSchema":{{"type":"object","x":{nested}}}}}"#);
    assert!(serde_json::from_str::<ToolSpec>(&schema).is_err());
    let spec: ToolSpec =
        serde_json::from_str(&format!(r#"{{"name":"t","inputSchema":{{"type":"object"}},"_meta":{{"k":{nested}}}}}"#)).unwrap();
    assert_eq!(spec.fingerprint(), spec.clone().fingerprint());
}

#[tokio::test]
async fn fifty_mebibytes_pass_and_come_back_whole() {
    let text = "x".repeat(50 << 20);
    let echo = sync_tool_fn("echo", |args: serde_json::Map<String, Value>| args["text"].as_str().unwrap_or_default().to_owned());
    let stack = Router::new().tool(echo);
    let response = stack.call_tool("echo", Arguments::from_text(format!(r#"{{"text":"{text}"}}"#))).await;
    assert!(response.as_text().is_some_and(|back| back == text.as_str()));
}

#[test]
fn a_million_keys_are_read_and_one_that_stands_twice_is_found() {
    let keys = |last: usize| (0..1_000_000).chain([last]).map(|i| format!("\"k{i}\":{i}")).collect::<Vec<_>>().join(",");
    assert_eq!(Arguments::from_text(format!("{{{}}}", keys(1_000_000))).object().unwrap().len(), 1_000_001);
    assert!(Arguments::from_text(format!("{{{}}}", keys(7))).object().unwrap_err().to_string().contains("stands twice"));
    assert!(serde_json::from_str::<RawObject>(&format!("{{{}}}", keys(7))).is_err());
}

#[tokio::test]
async fn each_sort_of_broken_arguments_is_told_to_the_model() {
    let stack = Router::new().tool(sync_tool_fn("typed", |_: serde_json::Map<String, Value>| "ran"));
    for (text, says) in [
        ("", "EOF"),
        ("{", "EOF"),
        (r#"{"a":NaN}"#, "expected value"),
        (r#"{"a":Infinity}"#, "expected value"),
        (r#"{"a":1e400}"#, "out of range"),
        (r#"{"a":"\ud800"}"#, "surrogate"),
        (r#"{"a":"\ud800\ud800"}"#, "surrogate"),
        (r#"{"a":1}x"#, "trailing"),
        (r#"{'a':1}"#, "key must be a string"),
        ("{\"a\":\"\n\"}", "control character"),
        ("null", "null"),
        ("[]", "an array"),
        (r#""{\"a\":1}""#, "a string"),
        ("7", "a number"),
    ] {
        let response = stack.call_tool("typed", Arguments::from_text(text)).await;
        assert_eq!(response.refusal().map(|refusal| refusal.kind()), Some(RefusalKind::InvalidArguments), "{text}");
        let told = response.as_text().unwrap();
        assert!(told.contains(says), "{text:?} is answered with {told:?}");
    }
}

#[test]
fn a_lone_surrogate_is_kept_in_what_is_not_read_and_refused_where_it_is() {
    let json = r#"{"type":"new","x":"\ud800"}"#;
    let block: Content = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&block).unwrap(), json);
    assert!(serde_json::from_str::<Content>(r#"{"type":"text","text":"\ud800"}"#).is_err());
}

#[test]
fn a_schema_that_is_none_is_an_error_that_says_why() {
    let spec = || ToolSpec::new(ToolName::new("t").unwrap());
    for schema in [json!(true), json!(null), json!([]), json!("object"), json!(1)] {
        assert!(matches!(spec().with_input_schema(&schema), Err(SchemaError::NotAnObject)), "{schema}");
    }
    assert!(matches!(spec().with_input_schema(&json!({ "type": ["object", "null"] })), Err(SchemaError::NotForAnObject)));
    for schema in [json!(null), json!([]), json!("object"), json!(1)] {
        assert!(matches!(spec().with_output_schema(&schema), Err(SchemaError::NotAnObject)), "{schema}");
    }
    assert!(spec().with_output_schema(&json!(true)).is_ok());
    for text in [r#"{"name":"t","inputSchema":7}"#, r#"{"name":"t"}"#, r#"{"name":"","inputSchema":{"type":"object"}}"#] {
        assert!(serde_json::from_str::<ToolSpec>(text).is_err(), "{text}");
    }
}

#[test]
#[should_panic(expected = "the tool `odd`, its arguments")]
fn a_tool_of_arguments_that_are_no_object_is_refused_at_set_up() {
    let _ = sync_tool_fn("odd", |n: i64| n);
}
