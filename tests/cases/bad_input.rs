//! Bad input (acceptance 8 of the core): whatever bytes arrive, there is a typed error or an exact value, nothing is lost on the way, and
//! nothing panics.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json, value::RawValue};
use toolstack::{
    BoxError, ListTools, Refusal, RefusalKind, Router, Stack, StackExt, ToolCall, ToolResponse,
    describe::Describe,
    error::Challenge,
    layer::{Ending, Step, TimeoutLayer, VisibilityLayer, gate},
    model::{
        Arguments, ArgumentsError, CallId, Cancellation, Content, ContentAnnotations, Context, Icon, InputRequired, NameError, Principal,
        Progress, ProgressUpdate, RawObject, Resume, SchemaError, TaskHandle, ToolAnnotations, ToolList, ToolName, ToolResult, ToolSpec,
        TraceContext,
    },
    operation::{Answer, Reply, View},
    router::RouterError,
    stack::Reentry,
    testing::{Controlled, Probe},
    tool::{Json, State, Tool, ToolError, sync_tool_fn, sync_tool_fn_with_state, tool_fn},
};

use super::hooks::{FORMS, block_on, every_form, json_of, spec, stack};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases, ..ProptestConfig::default() }
}

// JSON of our own making, of which we know what is wrong with it.

/// A JSON value as it is written.
#[derive(Clone, Debug)]
enum Written {
    /// The text, and whether it is a number that the strict view cannot hold.
    Leaf(String, bool),
    Array(Vec<Self>),
    /// Each key as it is written and as it reads.
    Object(Vec<(String, String, Self)>),
}

impl Written {
    fn write(&self, space: &str, out: &mut String) {
        out.push_str(space);
        match self {
            Self::Leaf(text, _) => out.push_str(text),
            Self::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(space, out);
                }
                out.push(']');
            }
            Self::Object(entries) => {
                out.push('{');
                for (i, (key, _, value)) in entries.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    out.push_str(space);
                    out.push_str(key);
                    out.push(':');
                    value.write(space, out);
                }
                out.push('}');
            }
        }
        out.push_str(space);
    }

    fn text(&self, space: &str) -> String {
        let mut out = String::new();
        self.write(space, &mut out);
        out
    }

    /// Whether a key stands twice somewhere.
    fn repeats_a_key(&self) -> bool {
        match self {
            Self::Leaf(..) => false,
            Self::Array(items) => items.iter().any(Self::repeats_a_key),
            Self::Object(entries) => {
                let keys: BTreeSet<_> = entries.iter().map(|(_, key, _)| key).collect();
                keys.len() < entries.len() || entries.iter().any(|(.., value)| value.repeats_a_key())
            }
        }
    }

    fn has_a_number_beyond(&self) -> bool {
        match self {
            Self::Leaf(_, beyond) => *beyond,
            Self::Array(items) => items.iter().any(Self::has_a_number_beyond),
            Self::Object(entries) => entries.iter().any(|(.., value)| value.has_a_number_beyond()),
        }
    }
}

/// A string as somebody may write it: plain, escaped, and beyond the basic plane. With what it reads as.
fn strings() -> impl Strategy<Value = (String, String)> {
    let piece = prop_oneof![
        "[a-c \\[\\]{}:,0-9.eE+-]{0,4}".prop_map(|text| (text.clone(), text)),
        Just(("\\\"".to_owned(), "\"".to_owned())),
        Just(("\\\\".to_owned(), "\\".to_owned())),
        Just(("\\/".to_owned(), "/".to_owned())),
        Just(("\\n".to_owned(), "\n".to_owned())),
        Just(("\\u0061".to_owned(), "a".to_owned())),
        Just(("\\u0000".to_owned(), "\0".to_owned())),
        Just(("\\ud83d\\ude00".to_owned(), "\u{1f600}".to_owned())),
        Just(("\u{1f600}\u{301}".to_owned(), "\u{1f600}\u{301}".to_owned())),
    ];
    proptest::collection::vec(piece, 0..4).prop_map(|pieces| {
        let (written, read): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        (format!("\"{}\"", written.concat()), read.concat())
    })
}

fn written() -> impl Strategy<Value = Written> {
    let number = prop_oneof![
        any::<i64>().prop_map(|n| (n.to_string(), false)),
        any::<u64>().prop_map(|n| (n.to_string(), false)),
        "-?(0|[1-9][0-9]{0,17})".prop_map(|n| (n, false)),
        "-?(0|[1-9][0-9]{0,25})\\.[0-9]{1,25}([eE][+-]?[0-9]{1,2})?".prop_map(|n| (n, false)),
        "-?[1-9][0-9]{20,40}".prop_map(|n| (n, true)),
        Just(("18446744073709551616".to_owned(), true)),
        Just(("-9223372036854775809".to_owned(), true)),
        Just(("1e400".to_owned(), true)),
        Just(("-1.0E+999".to_owned(), true)),
        Just(("1e-999".to_owned(), false)),
    ];
    let leaf = prop_oneof![
        4 => prop_oneof![Just("null"), Just("true"), Just("false")].prop_map(|word| Written::Leaf(word.to_owned(), false)),
        4 => strings().prop_map(|(text, _)| Written::Leaf(text, false)),
        4 => number.prop_map(|(text, beyond)| Written::Leaf(text, beyond)),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        let entry = (strings(), inner.clone()).prop_map(|((key, read), value)| (key, read, value));
        prop_oneof![
            proptest::collection::vec(inner, 0..6).prop_map(Written::Array),
            proptest::collection::vec(entry, 0..6).prop_map(Written::Object),
        ]
    })
}

fn spaces() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(""), Just(" "), Just("\n\t"), Just(" \r\n ")]
}

/// Text that is JSON, nearly JSON, or nothing of the kind.
fn texts() -> impl Strategy<Value = String> {
    let damaged = (written(), any::<prop::sample::Index>(), any::<char>(), 0..3_u8).prop_map(|(json, at, other, how)| {
        let mut text: Vec<char> = json.text("").chars().collect();
        let at = at.index(text.len());
        match how {
            0 => drop(text.remove(at)),
            1 => text[at] = other,
            _ => text.insert(at, other),
        }
        text.into_iter().collect()
    });
    prop_oneof![any::<String>(), (written(), spaces()).prop_map(|(json, space)| json.text(space)), damaged, "[\\[\\]{}\",:0-9eE.+-]{0,12}"]
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn the_strict_view_is_the_value_that_the_text_says_or_an_error(json in written(), space in spaces()) {
        let text = json.text(space);
        let arguments = Arguments::from_text(text.clone());
        let plain: Result<Value, _> = serde_json::from_str(&text);
        let strict = arguments.value();
        prop_assert_eq!(strict.is_ok(), !json.repeats_a_key() && !json.has_a_number_beyond(), "{}", text);
        if let Ok(value) = strict {
            prop_assert_eq!(value, &plain.unwrap());
            // Once parsed, always the same; and the same as a value that is handed over.
            prop_assert!(std::ptr::eq(value, arguments.value().unwrap()));
            prop_assert_eq!(&Arguments::from(value.clone()), &arguments);
            prop_assert_eq!(arguments.object().is_ok(), value.is_object());
            let read: Result<Map<String, Value>, _> = arguments.deserialize();
            prop_assert_eq!(read.is_ok(), value.is_object());
        }
        // The text is what counts, and stays what it was.
        prop_assert_eq!(arguments.as_json().unwrap(), text.as_str());
        prop_assert_eq!(serde_json::to_string(&arguments).unwrap(), text.trim());
        prop_assert_eq!(arguments.size(), Some(text.len()));
    }

    #[test]
    fn any_text_makes_arguments_that_say_what_is_wrong_with_them(text in texts()) {
        let arguments = Arguments::from_text(text.clone());
        prop_assert_eq!(arguments.as_json().unwrap(), text.as_str());
        let valid = serde_json::from_str::<&RawValue>(&text).is_ok();
        prop_assert_eq!(serde_json::to_string(&arguments).is_ok(), valid, "broken text is not written into other JSON");
        match (arguments.value(), arguments.object()) {
            (Err(ArgumentsError::Json(error)), Err(_)) => prop_assert!(!error.to_string().is_empty()),
            (Ok(value), Err(ArgumentsError::NotAnObject { .. })) => prop_assert!(!value.is_object()),
            (Ok(value), Ok(object)) => prop_assert_eq!(value.as_object(), Some(object)),
            other => prop_assert!(false, "{:?}", other),
        }
        prop_assert!(valid || arguments.value().is_err());
        if !valid {
            prop_assert!(arguments.deserialize::<Map<String, Value>>().is_err() && arguments.deserialize::<BTreeMap<String, i64>>().is_err());
        }
        let shown = format!("{arguments:?}");
        prop_assert!(shown.len() < 64);
        let _ = arguments.clone() == arguments;
    }
}

// Every type that is read from outside.

/// Reads bytes as a `T`; what was read is written, and reads the same again.
fn settles<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<(), TestCaseError> {
    match serde_json::from_slice::<T>(bytes) {
        Err(error) => prop_assert!(!error.to_string().is_empty()),
        Ok(value) => {
            let once = serde_json::to_string(&value).map_err(|error| TestCaseError::fail(format!("cannot be written again: {error}")))?;
            let again: T =
                serde_json::from_str(&once).map_err(|error| TestCaseError::fail(format!("{once} cannot be read again: {error}")))?;
            prop_assert_eq!(serde_json::to_string(&again).unwrap(), once);
        }
    }
    Ok(())
}

fn all_settle(bytes: &[u8]) -> Result<(), TestCaseError> {
    settles::<Arguments>(bytes)?;
    settles::<CallId>(bytes)?;
    settles::<Content>(bytes)?;
    settles::<ContentAnnotations>(bytes)?;
    settles::<Icon>(bytes)?;
    settles::<Principal>(bytes)?;
    settles::<ProgressUpdate>(bytes)?;
    settles::<RawObject>(bytes)?;
    settles::<ToolAnnotations>(bytes)?;
    settles::<ToolList>(bytes)?;
    settles::<ToolName>(bytes)?;
    settles::<ToolResponse>(bytes)?;
    settles::<ToolResult>(bytes)?;
    settles::<ToolSpec>(bytes)?;
    settles::<TraceContext>(bytes)?;
    // A call without an id gets one, so that it is read anew each time.
    if let Ok(call) = serde_json::from_slice::<ToolCall>(bytes) {
        let once = serde_json::to_string(&call).unwrap();
        let again: ToolCall = serde_json::from_str(&once).unwrap();
        prop_assert_eq!(serde_json::to_string(&again).unwrap(), once);
    }
    Ok(())
}

/// JSON objects with the fields that our types look for, and anything at all in them.
fn shaped() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        Just("id"),
        Just("name"),
        Just("arguments"),
        Just("inputResponses"),
        Just("requestState"),
        Just("_meta"),
        Just("resultType"),
        Just("content"),
        Just("structuredContent"),
        Just("isError"),
        Just("inputRequests"),
        Just("taskId"),
        Just("status"),
        Just("tools"),
        Just("title"),
        Just("description"),
        Just("inputSchema"),
        Just("outputSchema"),
        Just("annotations"),
        Just("icons"),
        Just("src"),
        Just("type"),
        Just("text"),
        Just("data"),
        Just("mimeType"),
        Just("uri"),
        Just("resource"),
        Just("size"),
        Just("audience"),
        Just("priority"),
        Just("readOnlyHint"),
        Just("subject"),
        Just("claims"),
        Just("new"),
    ];
    let value = prop_oneof![
        written().prop_map(|json| json.text("")),
        Just(r#""text""#.to_owned()),
        Just(r#""complete""#.to_owned()),
        Just(r#""input_required""#.to_owned()),
        Just(r#""task""#.to_owned()),
        Just(r#""image""#.to_owned()),
        Just(r#""resource""#.to_owned()),
        Just(r#"{"type":"object"}"#.to_owned()),
        Just("[]".to_owned()),
        Just(r#"[{"type":"text","text":"x"}]"#.to_owned()),
        Just(r#"{"uri":"u:"}"#.to_owned()),
        Just("{}".to_owned()),
        Just("null".to_owned()),
    ];
    proptest::collection::vec((key, value), 0..8)
        .prop_map(|fields| format!("{{{}}}", fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect::<Vec<_>>().join(",")))
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn any_bytes_are_read_or_refused_by_every_type(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        all_settle(&bytes)?;
    }

    #[test]
    fn any_text_is_read_or_refused_by_every_type(text in texts()) {
        all_settle(text.as_bytes())?;
    }

    #[test]
    fn any_object_of_known_fields_is_read_or_refused_by_every_type(text in shaped()) {
        all_settle(text.as_bytes())?;
    }
}

// What is well-formed leaves as it came, with what this crate does not know.

/// A JSON value without keys that stand twice at its own level of objects that our types read.
fn any_json() -> impl Strategy<Value = String> {
    written().prop_map(|json| json.text(""))
}

/// Fields that nobody knows, written out, each with a comma before it.
fn unknown_fields() -> impl Strategy<Value = String> {
    proptest::collection::btree_map("x-[a-f]{1,3}", any_json(), 0..3)
        .prop_map(|fields| fields.iter().map(|(key, value)| format!(",\"{key}\":{value}")).collect())
}

/// `,"_meta":{…}`, or nothing.
fn meta() -> impl Strategy<Value = String> {
    proptest::collection::btree_map("[a-f]{1,3}", any_json(), 0..3).prop_map(|fields| {
        let fields: Vec<_> = fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        if fields.is_empty() { String::new() } else { format!(",\"_meta\":{{{}}}", fields.join(",")) }
    })
}

fn quoted() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| Value::from(text).to_string())
}

/// `,"key":value`, or nothing.
fn maybe<S: Strategy<Value = String>>(key: &'static str, value: S) -> impl Strategy<Value = String> {
    proptest::option::of(value).prop_map(move |value| value.map_or_else(String::new, |value| format!(",\"{key}\":{value}")))
}

fn block_annotations() -> impl Strategy<Value = String> {
    let some = (
        maybe("audience", prop_oneof![Just("[]"), Just(r#"["user"]"#), Just(r#"["assistant","user"]"#)].prop_map(str::to_owned)),
        maybe("priority", (0..=100_u8).prop_map(|hundredths| format!("{:?}", f64::from(hundredths) / 100.0))),
        maybe("lastModified", quoted()),
        unknown_fields(),
    )
        .prop_map(|(a, b, c, d)| format!("{{{}}}", format!("{a}{b}{c}{d}").trim_start_matches(',')));
    maybe("annotations", some)
}

fn blocks() -> impl Strategy<Value = String> {
    let tail = || (block_annotations(), unknown_fields(), meta()).prop_map(|(a, b, c)| format!("{a}{b}{c}"));
    let text = || (quoted(), tail()).prop_map(|(text, tail)| format!(r#"{{"type":"text","text":{text}{tail}}}"#));
    let media = (prop_oneof![Just("image"), Just("audio")], quoted(), quoted(), tail())
        .prop_map(|(kind, data, mime, tail)| format!(r#"{{"type":"{kind}","data":{data},"mimeType":{mime}{tail}}}"#));
    let link = (quoted(), quoted(), maybe("title", quoted()), maybe("size", any::<u64>().prop_map(|size| size.to_string())), tail())
        .prop_map(|(uri, name, title, size, tail)| format!(r#"{{"type":"resource_link","uri":{uri},"name":{name}{title}{size}{tail}}}"#));
    let resource = (quoted(), maybe("mimeType", quoted()), maybe("text", quoted()), unknown_fields(), meta(), tail()).prop_map(
        |(uri, mime, text, unknown, meta, tail)| {
            format!(r#"{{"type":"resource","resource":{{"uri":{uri}{mime}{text}{unknown}{meta}}}{tail}}}"#)
        },
    );
    let other = (unknown_fields(), meta()).prop_map(|(unknown, meta)| format!(r#"{{"type":"x-new"{unknown}{meta}}}"#));
    prop_oneof![text(), media, link, resource, other]
}

fn responses() -> impl Strategy<Value = String> {
    let complete =
        (proptest::collection::vec(blocks(), 0..3), maybe("structuredContent", any_json()), any::<bool>(), unknown_fields(), meta())
            .prop_map(|(blocks, structured, error, unknown, meta)| {
                let error = if error { r#","isError":true"# } else { "" };
                format!(r#"{{"resultType":"complete","content":[{}]{structured}{error}{unknown}{meta}}}"#, blocks.join(","))
            });
    let asks = (any_json(), maybe("requestState", quoted()), unknown_fields(), meta()).prop_map(|(request, state, unknown, meta)| {
        format!(r#"{{"resultType":"input_required","inputRequests":{{"q":{request}}}{state}{unknown}{meta}}}"#)
    });
    let task = (quoted(), quoted(), unknown_fields(), meta())
        .prop_map(|(id, status, unknown, meta)| format!(r#"{{"resultType":"task","taskId":{id},"status":{status}{unknown}{meta}}}"#));
    prop_oneof![3 => complete, 1 => asks, 1 => task]
}

fn calls_as_sent() -> impl Strategy<Value = String> {
    let id = prop_oneof![any::<i64>().prop_map(|id| id.to_string()), quoted()];
    let name = any::<String>().prop_filter("a name that is cut", |name| name.len() <= 512).prop_map(|name| Value::from(name).to_string());
    (id, name, any_json(), unknown_fields(), meta(), maybe("inputResponses", any_json().prop_map(|json| format!("{{\"q\":{json}}}"))))
        .prop_map(|(id, name, arguments, unknown, meta, answers)| {
            format!(r#"{{"id":{id},"name":{name},"arguments":{arguments}{answers}{unknown}{meta}}}"#)
        })
}

fn specs() -> impl Strategy<Value = String> {
    let schema = unknown_fields().prop_map(|unknown| format!(r#"{{"type":"object"{unknown}}}"#));
    let hints = (maybe("readOnlyHint", any::<bool>().prop_map(|hint| hint.to_string())), unknown_fields())
        .prop_map(|(hint, unknown)| format!("{hint}{unknown}"))
        .prop_filter("nothing said", |hints| !hints.is_empty())
        .prop_map(|hints| format!("{{{}}}", hints.trim_start_matches(',')));
    let icons = (quoted(), unknown_fields()).prop_map(|(src, unknown)| format!(r#"[{{"src":{src}{unknown}}}]"#));
    (
        "[A-Za-z0-9_.-]{1,128}",
        maybe("title", quoted()),
        maybe("description", quoted()),
        schema,
        maybe("annotations", hints),
        maybe("icons", icons),
        unknown_fields(),
        meta(),
    )
        .prop_map(|(name, title, description, schema, hints, icons, unknown, meta)| {
            format!(r#"{{"name":"{name}"{title}{description},"inputSchema":{schema}{hints}{icons}{unknown}{meta}}}"#)
        })
}

fn leaves_as_it_came<T: DeserializeOwned + Serialize>(json: &str) -> Result<T, TestCaseError> {
    let value: T = serde_json::from_str(json).map_err(|error| TestCaseError::fail(format!("{json}: {error}")))?;
    prop_assert_eq!(serde_json::to_string(&value).unwrap(), json);
    Ok(value)
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_response_with_anything_in_it_leaves_as_it_came(json in responses()) {
        let response = leaves_as_it_came::<ToolResponse>(&json)?;
        prop_assert_eq!(json_of(&response.clone()), json);
    }

    #[test]
    fn a_call_with_anything_in_it_leaves_as_it_came(json in calls_as_sent()) {
        let call = leaves_as_it_came::<ToolCall>(&json)?;
        prop_assert_eq!(serde_json::to_string(&call.clone()).unwrap(), json);
    }

    #[test]
    fn a_spec_with_anything_in_it_leaves_as_it_came_or_its_schema_is_refused(json in specs(), more in unknown_fields(), meta in meta()) {
        // A schema has to be read, so that a key that stands twice, or a number that cannot be held, is an error there and nowhere else.
        if let Ok(spec) = serde_json::from_str::<ToolSpec>(&json) {
            leaves_as_it_came::<ToolSpec>(&json)?;
            prop_assert_eq!(spec.fingerprint(), spec.clone().fingerprint());
            leaves_as_it_came::<ToolList>(&format!(r#"{{"tools":[{json}]{more}{meta}}}"#))?;
        } else {
            let schema: Value = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(&json)
                .ok()
                .and_then(|fields| serde_json::from_str(fields["inputSchema"].get()).ok())
                .unwrap_or_default();
            let raw = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(&json).unwrap();
            prop_assert!(Arguments::from_text(raw["inputSchema"].get()).value().is_err(), "{}: {}", json, schema);
        }
    }
}

// Names.

fn rule_holds(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn a_name_is_one_or_the_error_says_what_is_wrong(name in prop_oneof![any::<String>(), "[A-Za-z0-9_.-]{0,140}", "[ -~]{0,6}"]) {
        match ToolName::new(&name) {
            Ok(read) => {
                prop_assert!(rule_holds(&name));
                prop_assert_eq!((read.as_str(), read.is_valid()), (name.as_str(), true));
                prop_assert_eq!(serde_json::from_str::<ToolName>(&serde_json::to_string(&read).unwrap()).unwrap(), read);
            }
            Err(error) => {
                prop_assert!(!rule_holds(&name), "{}", error);
                prop_assert!(error.to_string().len() < 200);
                match error {
                    NameError::Empty => prop_assert_eq!(name.as_str(), ""),
                    NameError::TooLong { length, .. } => prop_assert!(length == name.len() && length > 128),
                    NameError::Character { character, position, .. } => prop_assert!(name[position..].starts_with(character)),
                    other => prop_assert!(false, "{}", other),
                }
                prop_assert!(serde_json::from_str::<ToolName>(&Value::from(name.as_str()).to_string()).is_err());
            }
        }
    }

    #[test]
    fn a_nested_name_is_one_or_an_error_at_set_up(
        prefix in prop_oneof!["[a-b.]{0,130}", any::<String>()],
        names in proptest::collection::btree_set("[a-b.]{1,128}", 0..4),
    ) {
        let probe = Probe::new();
        let inner = names.iter().fold(Router::new(), |router, name| router.tool(probe.tool(name)));
        let outside: BTreeSet<_> = names.iter().map(|name| format!("{prefix}.{name}")).collect();
        match Router::new().try_nest(&prefix, inner) {
            Ok(router) => {
                prop_assert!(rule_holds(&prefix) && outside.iter().all(|name| rule_holds(name)));
                block_on(async {
                    let list = router.list_tools().await;
                    assert_eq!(list.names().map(str::to_owned).collect::<BTreeSet<_>>(), outside);
                    for name in &outside {
                        assert!(router.call_tool(name, json!({})).await.is_completed(), "{name}");
                    }
                });
            }
            Err(RouterError::Name { prefix: told, .. }) => {
                prop_assert!(told == prefix && (!rule_holds(&prefix) || outside.iter().any(|name| !rule_holds(name))));
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

// Dispatch.

#[derive(Deserialize, JsonSchema)]
struct Typed {
    n: i64,
    #[serde(default)]
    s: Option<String>,
}

fn tools() -> Stack {
    stack!(
        VisibilityLayer::new(|tool, _| !tool.has_tag("hidden")),
        gate("look", |call| {
            let _ = call.arguments.object();
            Ok(())
        }),
        TimeoutLayer::new(Duration::from_secs(9)),
        Router::new()
            .tool(sync_tool_fn("raw", |arguments: Arguments| arguments.as_json().map(str::to_owned).map_err(|_| "unwritten")))
            .tool(tool_fn("object", |call: ToolCall| async move {
                call.arguments
                    .object()
                    .map(|object| object.len())
                    .map_err(|error| Refusal::new(RefusalKind::InvalidArguments, error.to_string()))
            }))
            .tool(sync_tool_fn("typed", |typed: Typed| format!("{} {:?}", typed.n, typed.s)))
            .nest("ns", Router::new().tool(sync_tool_fn("typed", |typed: Typed| format!("{} {:?}", typed.n, typed.s))))
            .tool(sync_tool_fn("hidden", || "never").tag("hidden"))
    )
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn any_call_is_answered_and_marked_as_an_error_if_it_is_one(
        name in prop_oneof![4 => prop_oneof![Just("raw"), Just("object"), Just("typed"), Just("ns.typed"), Just("hidden")].prop_map(str::to_owned), 1 => any::<String>()],
        text in prop_oneof![4 => texts(), 1 => r#"\{"n":-?[0-9]{1,22}(,"s":("x"|null|1))?\}"#],
    ) {
        let stack = block_on(async { tools() });
        let arguments = Arguments::from_text(text.clone());
        let object = arguments.object().map(Map::len);
        // What serde makes of an object, and of nothing else.
        let typed = text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{').then(|| serde_json::from_str::<Typed>(&text).ok()).flatten();
        let expected = match name.as_str() {
            "raw" => Ok(text.clone()),
            "object" => object.map(|len| len.to_string()).map_err(|_| RefusalKind::InvalidArguments),
            "typed" | "ns.typed" => typed.map(|typed| format!("{} {:?}", typed.n, typed.s)).ok_or(RefusalKind::InvalidArguments),
            _ => Err(RefusalKind::UnknownTool),
        };
        let response = block_on(stack.call_tool(&name, arguments));
        let result = response.result().unwrap();
        prop_assert_eq!(result.is_error, expected.is_err());
        match expected {
            Ok(said) => prop_assert_eq!(response.as_text().unwrap(), said),
            Err(kind) => {
                prop_assert_eq!(result.refusal().map(Refusal::kind), Some(kind), "{}: {}", name, text);
                prop_assert!(!response.as_text().unwrap().is_empty());
            }
        }
        // As JSON it is whole, whatever was asked.
        leaves_as_it_came::<ToolResponse>(&json_of(&response))?;
    }
}

// Schemas.

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_schema_is_an_object_for_objects_or_a_typed_error(json in any_json(), with_type in any::<bool>()) {
        let json = if with_type { format!(r#"{{"type":"object","x":{json}}}"#) } else { json };
        let raw = RawValue::from_string(json.clone()).unwrap();
        let input = spec("t").with_input_schema(&raw);
        let output = spec("t").with_output_schema(&raw);
        let value = match Arguments::from_text(json.clone()).value() {
            // A schema stays text, so that its numbers may be of any size.
            Err(error) if error.to_string().contains("fits no 64-bit number") => Ok(serde_json::from_str(&json).unwrap()),
            view => view.cloned(),
        };
        match value {
            Err(_) => {
                prop_assert!(matches!(input, Err(SchemaError::Json(_))), "{}", json);
                prop_assert!(matches!(output, Err(SchemaError::Json(_))), "{}", json);
            }
            Ok(Value::Object(schema)) => {
                match input {
                    Ok(spec) => prop_assert!(schema["type"] == "object" && spec.input_schema().get() == json),
                    Err(error) => prop_assert!(matches!(error, SchemaError::NotForAnObject) && schema.get("type") != Some(&"object".into())),
                }
                let output = output.unwrap();
                prop_assert_eq!(output.output_schema().unwrap().get(), json.as_str());
            }
            Ok(value) => {
                prop_assert!(matches!(input, Err(SchemaError::NotAnObject)), "{}", json);
                prop_assert_eq!(output.is_ok(), value.is_boolean());
            }
        }
        let whole = serde_json::from_str::<ToolSpec>(&format!(r#"{{"name":"t","inputSchema":{json}}}"#));
        prop_assert_eq!(whole.is_ok(), spec("t").with_input_schema(&raw).is_ok());
    }
}

#[test]
fn a_schema_that_is_none_is_told_where_the_tool_is_made() {
    for (schema, says) in [
        (json!("object"), "object"),
        (json!([]), "object"),
        (json!(null), "object"),
        (json!(true), "object"),
        (json!({}), "\"type\": \"object\""),
        (json!({ "type": "array" }), "\"type\": \"object\""),
        (json!({ "type": ["object"] }), "\"type\": \"object\""),
    ] {
        let error = spec("t").with_input_schema(&schema).unwrap_err().to_string();
        assert!(error.contains(says), "{schema}: {error}");
        let panic = std::panic::catch_unwind(|| drop(sync_tool_fn("my_tool", |_: Arguments| "ran").input_schema(&schema)));
        let message = *panic.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("my_tool") && message.contains(&error), "{message}");
    }
    // Arguments whose type is no object.
    assert!(std::panic::catch_unwind(|| drop(sync_tool_fn("t", |_: Vec<i64>| "ran"))).is_err());
    assert!(std::panic::catch_unwind(|| drop(sync_tool_fn("t", |_: String| "ran"))).is_err());
}

// What JSON has no room for.

#[test]
fn nan_infinities_and_lone_surrogates_are_typed_errors_wherever_they_are_read() {
    for bad in [
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "1e",
        "01",
        "+1",
        ".5",
        "1.",
        "0x10",
        "'a'",
        "undefined",
        "[1,]",
        "{\"a\":1,}",
        "\u{feff}1",
        "/**/1",
    ] {
        assert!(Arguments::from_text(bad).value().is_err(), "{bad}");
        assert!(Arguments::from_text(format!(r#"{{"a":{bad}}}"#)).object().is_err(), "{bad}");
        for json in [format!(r#"{{"id":1,"name":"t","arguments":{{"a":{bad}}}}}"#), format!(r#"{{"name":"t","_meta":{{"a":{bad}}}}}"#)] {
            assert!(serde_json::from_str::<ToolCall>(&json).is_err(), "{json}");
        }
        assert!(serde_json::from_str::<ToolResponse>(&format!(r#"{{"content":[],"structuredContent":{bad}}}"#)).is_err(), "{bad}");
        assert!(
            serde_json::from_str::<ToolSpec>(&format!(r#"{{"name":"t","inputSchema":{{"type":"object","a":{bad}}}}}"#)).is_err(),
            "{bad}"
        );
        assert!(serde_json::from_str::<RawObject>(&format!(r#"{{"a":{bad}}}"#)).is_err(), "{bad}");
        assert!(serde_json::from_str::<ProgressUpdate>(&format!(r#"{{"progress":{bad}}}"#)).is_err(), "{bad}");
    }
    for bad in [r#""\ud800""#, r#""\udc00""#, r#""\ud800x""#, r#""\ud800\u0061""#, r#""\ud800\ud800""#] {
        for arguments in [Arguments::from_text(format!(r#"{{"s":{bad}}}"#)), Arguments::from_text(format!(r#"{{{bad}:1}}"#))] {
            let error = arguments.object().unwrap_err();
            assert!(matches!(&error, ArgumentsError::Json(_)) && error.to_string().contains("line 1"), "{error}");
            // It is not lost either: the text is there as it came.
            assert!(arguments.as_json().unwrap().contains(bad));
        }
        assert!(serde_json::from_str::<Content>(&format!(r#"{{"type":"text","text":{bad}}}"#)).is_err(), "{bad}");
        assert!(serde_json::from_str::<ToolName>(bad).is_err() && serde_json::from_str::<CallId>(bad).is_err());
        assert!(serde_json::from_str::<ToolCall>(&format!(r#"{{"id":1,"name":{bad}}}"#)).is_err(), "{bad}");
    }
    // Bytes that are no UTF-8.
    for bytes in [&b"{\"a\":\"\xff\"}"[..], b"\"\xed\xa0\x80\"", b"\xc0\x80", b"{\"\xf8\":1}"] {
        assert!(serde_json::from_slice::<ToolCall>(bytes).is_err() && serde_json::from_slice::<ToolResponse>(bytes).is_err());
        assert!(serde_json::from_slice::<RawObject>(bytes).is_err() && serde_json::from_slice::<Content>(bytes).is_err());
    }
}

#[tokio::test]
async fn each_sort_of_broken_arguments_is_told_to_the_model() {
    let stack = Router::new().tool(sync_tool_fn("typed", |_: Map<String, Value>| "ran"));
    for (text, says) in [
        ("", "EOF"),
        ("{", "EOF"),
        (r#"{"a":NaN}"#, "expected value"),
        (r#"{"a":Infinity}"#, "expected value"),
        (r#"{"a":1e400}"#, "out of range"),
        (r#"{"a":"\ud800"}"#, "hex escape"),
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
        assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::InvalidArguments), "{text}");
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
fn what_a_program_cannot_write_as_json_is_an_error_or_as_documented() {
    /// Has keys that are no text.
    #[derive(Serialize)]
    struct Odd {
        map: BTreeMap<Vec<u8>, u8>,
    }
    let odd = Odd { map: BTreeMap::from([(vec![1], 1)]) };
    assert!(Arguments::from_serialize(&odd).is_err() && ToolResult::structured(&odd).is_err());
    assert!(RawObject::new().insert("k", &odd).is_err());
    assert!(matches!(spec("t").with_input_schema(&odd), Err(SchemaError::Json(_))));
    // Serde writes what is not finite as null, for us as for everybody.
    #[derive(Serialize, JsonSchema)]
    struct Out {
        n: f64,
    }
    let stack = stack!(Router::new().tool(sync_tool_fn("json", || Json(Out { n: f64::NAN }))).tool(sync_tool_fn("text", || f64::INFINITY)));
    block_on(async {
        assert_eq!(stack.call_tool("json", json!({})).await.as_text().as_deref(), Some(r#"{"n":null}"#));
        assert_eq!(stack.call_tool("text", json!({})).await.as_text().as_deref(), Some("inf"));
    });
}

#[test]
fn a_key_that_stands_twice_is_an_error_in_every_object_that_is_looked_into() {
    for json in [
        r#"{"id":1,"name":"t","name":"u"}"#,
        r#"{"id":1,"name":"t","x":1,"x":2}"#,
        r#"{"id":1,"name":"t","_meta":{"k":1,"\u006b":2}}"#,
        r#"{"id":1,"name":"t","inputResponses":{"q":1,"q":2}}"#,
    ] {
        assert!(serde_json::from_str::<ToolCall>(json).unwrap_err().to_string().contains("stands twice"), "{json}");
    }
    for json in [
        r#"{"content":[],"content":[]}"#,
        r#"{"content":[{"type":"text","text":"a","text":"b"}]}"#,
        r#"{"content":[{"type":"text","text":"a","_meta":{"k":1,"k":1}}]}"#,
        r#"{"content":[{"type":"resource","resource":{"uri":"a","uri":"b"}}]}"#,
        r#"{"content":[{"type":"text","text":"a","annotations":{"priority":1,"priority":0}}]}"#,
        r#"{"content":[],"isError":false,"isError":true}"#,
        r#"{"resultType":"task","taskId":"t","status":"a","status":"b"}"#,
        r#"{"resultType":"input_required","inputRequests":{"q":1,"q":2}}"#,
    ] {
        assert!(serde_json::from_str::<ToolResponse>(json).unwrap_err().to_string().contains("stands twice"), "{json}");
    }
    for json in [
        r#"{"name":"t","name":"u","inputSchema":{"type":"object"}}"#,
        r#"{"name":"t","inputSchema":{"type":"object","type":"object"}}"#,
        r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{},"a":{}}}}"#,
        r#"{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"readOnlyHint":false}}"#,
        r#"{"name":"t","inputSchema":{"type":"object"},"icons":[{"src":"a","src":"b"}]}"#,
    ] {
        assert!(serde_json::from_str::<ToolSpec>(json).unwrap_err().to_string().contains("stands twice"), "{json}");
    }
    assert!(serde_json::from_str::<ToolList>(r#"{"tools":[],"tools":[]}"#).is_err());
}

// Size and depth.

#[test]
fn ten_thousand_levels_are_held_shown_written_and_dropped_wherever_they_may_be() {
    for depth in [1_000, 10_000] {
        let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        for deep in [deep, objects] {
            let call = format!(
                r#"{{"id":1,"name":"t","arguments":{{"a":{deep}}},"inputResponses":{{"q":{deep}}},"new":{deep},"_meta":{{"k":{deep}}}}}"#
            );
            let read: ToolCall = serde_json::from_str(&call).unwrap();
            assert!(serde_json::to_string(&read.clone()).unwrap() == call);
            assert!(format!("{read:?}").len() < 1_000);
            assert!(read.arguments.object().unwrap_err().to_string().contains("recursion limit"));
            drop(read);

            let response = format!(
                r#"{{"resultType":"complete","content":[{{"type":"text","text":"x","new":{deep},"_meta":{{"k":{deep}}}}},{{"type":"new","x":{deep}}}],"new":{deep},"_meta":{{"k":{deep}}}}}"#
            );
            let read: ToolResponse = serde_json::from_str(&response).unwrap();
            assert!(json_of(&read.clone()) == response && format!("{read:?}").len() < 2_000);
            drop(read);
            let structured: ToolResponse = serde_json::from_str(&format!(r#"{{"structuredContent":{deep}}}"#)).unwrap();
            assert!(structured.result().unwrap().structured_content().unwrap().get() == deep);

            let tool = format!(
                r#"{{"name":"t","inputSchema":{{"type":"object"}},"annotations":{{"new":{deep}}},"new":{deep},"_meta":{{"k":{deep}}}}}"#
            );
            let read: ToolSpec = serde_json::from_str(&tool).unwrap();
            assert!(serde_json::to_string(&read.clone()).unwrap() == tool && format!("{read:?}").len() < 2_000);
            assert_eq!(read.fingerprint(), read.clone().fingerprint());
            assert_ne!(read.fingerprint(), spec("t").fingerprint());
            let list = format!(r#"{{"tools":[{tool}],"_meta":{{"k":{deep}}}}}"#);
            assert!(serde_json::to_string(&serde_json::from_str::<ToolList>(&list).unwrap()).unwrap() == list);

            // A schema has to be read, and is bounded.
            let schema = RawValue::from_string(format!(r#"{{"type":"object","x":{deep}}}"#)).unwrap();
            assert!(matches!(spec("t").with_input_schema(&schema), Err(SchemaError::Json(_))));
            assert!(serde_json::from_str::<ToolSpec>(&format!(r#"{{"name":"t","inputSchema":{}}}"#, schema.get())).is_err());

            let principal: Principal = serde_json::from_str(&format!(r#"{{"subject":"ada","claims":{{"c":{deep}}}}}"#)).unwrap();
            assert!(format!("{principal:?}").len() < 1_000 && principal == principal.clone());
        }
    }
}

#[test]
fn a_million_keys_are_read_and_a_key_that_stands_twice_among_them_is_found() {
    let keys = |keys: usize| (0..keys).map(|n| format!("\"k{n}\":1")).collect::<Vec<_>>().join(",");
    let (million, many) = (keys(1_000_000), keys(50_000));
    assert_eq!(Arguments::from_text(format!("{{{million}}}")).object().unwrap().len(), 1_000_000);
    assert!(Arguments::from_text(format!("{{{many},\"k7\":1}}")).object().unwrap_err().to_string().contains("stands twice"));

    let object: RawObject = serde_json::from_str(&format!("{{{many}}}")).unwrap();
    assert_eq!((object.len(), object.get::<i64>("k49999").unwrap()), (50_000, Some(1)));
    assert!(serde_json::from_str::<RawObject>(&format!("{{{many},\"k7\":1}}")).is_err());
    let call: ToolCall = serde_json::from_str(&format!(r#"{{"id":1,"name":"t","arguments":{{}},{many}}}"#)).unwrap();
    assert_eq!(call.context.params().len(), 50_000);
}

#[tokio::test(start_paused = true)]
async fn fifty_mebibytes_pass_without_being_copied_or_shown() {
    let text: Arc<str> = format!(r#"{{"s":"{}"}}"#, "x".repeat(50 << 20)).into();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = {
        let seen = Arc::clone(&seen);
        every_form(move |call| {
            seen.lock().unwrap().push(call.arguments.clone());
            ToolResponse::text("ran")
        })
    };
    let stack = stack!(VisibilityLayer::new(|_, _| true), gate("look", |_| Ok(())), TimeoutLayer::new(Duration::from_secs(9)), keep);
    for form in FORMS {
        let call = ToolCall::new(form, Arguments::from_text(Arc::clone(&text)));
        assert!(format!("{call:?}").len() < 1_000);
        assert!(stack.run_call(call).await.is_completed(), "{form}");
        let got = seen.lock().unwrap().pop().unwrap();
        assert!(std::ptr::eq(got.as_json().unwrap(), &*text), "{form}: the same bytes, not others like them");
    }
    // Read as well, once.
    let arguments = Arguments::from_text(text);
    assert_eq!(arguments.object().unwrap()["s"].as_str().map(str::len), Some(50 << 20));
}

#[tokio::test(start_paused = true)]
async fn an_absurd_name_does_not_travel_on() {
    let stack = tools();
    for name in ["x".repeat(50 << 20), "\u{1f600}".repeat(1_000_000), format!("ns.{}", "y".repeat(1_000_000)), "ns.".repeat(100_000)] {
        let call = ToolCall::new(&name, json!({}));
        assert!(call.name().len() <= 512 && !call.name().is_valid());
        let response = stack.run_call(call).await;
        assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::UnknownTool));
        assert!(json_of(&response).len() < 2_000);
    }
}

// No secret shows in `Debug`.

const SECRET: &str = "hunter2-s3cret";

/// Prints itself, as types that carry secrets do by mistake.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "only to be shown")]
struct Loud(&'static str);

impl fmt::Display for Loud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Loud {}

fn secret_object() -> RawObject {
    serde_json::from_str(&json!({ "key": SECRET, "deep": { "k": [SECRET] } }).to_string()).unwrap()
}

fn secret_context() -> Context {
    let mut principal = Principal::new("ada").scope("files:read");
    principal.claims = secret_object();
    let mut context = Context::new()
        .with_principal(principal)
        .with_session(SECRET)
        .with_trace(TraceContext::new(SECRET))
        .with_cancellation(Cancellation::new())
        .with_progress(Progress::new(|_| {}))
        .with_resume(Resume::new(Some(SECRET.into()), secret_object()));
    *context.meta_mut() = secret_object();
    context.extensions_mut().insert(Loud(SECRET));
    context
}

fn secret_call() -> ToolCall {
    // Parameters that nobody knows as well, which only reading sets.
    let json = json!({ "id": "c", "name": "t", "arguments": { "password": SECRET }, "new": SECRET, "_meta": { "k": SECRET }, "requestState": SECRET });
    let call: ToolCall = serde_json::from_str(&json.to_string()).unwrap();
    let mut context = secret_context();
    context.extensions_mut().insert(SECRET.to_owned());
    let with = call.clone().with_context(context);
    assert!(!format!("{call:?}").contains(SECRET), "{call:?}");
    with
}

fn secret_refusal() -> Refusal {
    Refusal::new(RefusalKind::AuthRequired, "Sign in.").with_source(Loud(SECRET)).with_challenge(Challenge::auth(
        SECRET.to_owned(),
        SECRET.to_owned(),
        SECRET.to_owned(),
    ))
}

fn assert_silent(what: &str, shown: &dyn fmt::Debug) {
    for text in [format!("{shown:?}"), format!("{shown:#?}")] {
        assert!(!text.contains(SECRET) && !text.contains("hunter2"), "{what}: {text}");
        assert!(!text.is_empty(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn debug_of_no_type_shows_an_argument_a_claim_a_meta_value_a_source_or_an_extension() {
    let silent = assert_silent;

    // Calls and what they carry.
    silent("arguments, text", &Arguments::from_text(json!({ "p": SECRET }).to_string()));
    silent("arguments, broken", &Arguments::from_text(SECRET));
    let value = Arguments::from(json!({ "p": SECRET }));
    silent("arguments, value", &value);
    value.as_json().unwrap();
    silent("arguments, value written", &value);
    silent("raw object", &secret_object());
    silent("context", &secret_context());
    silent("principal", secret_context().principal());
    silent("resume", secret_context().resume().unwrap());
    let mut call = secret_call();
    silent("call", &call);
    silent("view of a call", &View::Call(&mut call));
    let mut list = ListTools::new().with_context(secret_context());
    silent("list", &list);
    silent("view of a list", &View::List(&mut list));
    let mut describe = Describe::new();
    describe.context = secret_context();
    silent("describe", &describe);
    silent("progress", secret_context().progress());
    silent("cancellation", secret_context().cancellation().unwrap());

    // Responses: what a layer or a proxy may have put in beside what the model reads.
    let refusal = secret_refusal();
    silent("refusal", &refusal);
    silent("refused", &ToolResponse::refused(refusal.clone()));
    silent("refused list", &ToolList::refused(refusal.clone()));
    silent("tool error", &ToolError::new("It failed.").with_source(Loud(SECRET)));
    silent("tool error by source", &ToolError::from(Loud(SECRET)));
    let mut result: ToolResult =
        serde_json::from_str(&json!({ "content": [], "new": SECRET, "_meta": { "k": SECRET } }).to_string()).unwrap();
    silent("result", &result);
    for block in [
        json!({ "type": "text", "text": "t", "new": SECRET, "_meta": { "k": SECRET }, "annotations": { "new": SECRET } }),
        json!({ "type": "image", "data": "", "mimeType": "", "new": SECRET, "_meta": { "k": SECRET } }),
        json!({ "type": "resource_link", "uri": "u:", "name": "n", "new": SECRET, "_meta": { "k": SECRET } }),
        json!({ "type": "resource", "resource": { "uri": "u:", "new": SECRET, "_meta": { "k": SECRET } }, "new": SECRET }),
        json!({ "type": "unheard_of", "new": SECRET }),
    ] {
        let block: Content = serde_json::from_str(&block.to_string()).unwrap();
        silent("block", &block);
        result.push(block);
    }
    let mut response = ToolResponse::from(result);
    silent("response", &response);
    silent("answer", &Answer::from(response.clone()));
    silent("step", &Step::<()>::answer(response.clone()));
    silent("refusing step", &Step::<()>::refuse(refusal));
    silent("reply", &Reply::Call(&mut response));
    silent("ending", &Ending::Reply(Reply::Call(&mut response)));
    let mut asked = InputRequired::new(SECRET);
    (asked.requests, asked.meta, asked.extra) = (secret_object(), secret_object(), secret_object());
    silent("input required", &asked);
    silent("asking response", &ToolResponse::InputRequired(Box::new(asked)));
    let mut task = TaskHandle::new("t");
    (task.meta, task.extra) = (secret_object(), secret_object());
    silent("task", &ToolResponse::Task(Box::new(task)));

    // Tools and lists.
    let spec: ToolSpec = serde_json::from_str(
        &json!({ "name": "t", "inputSchema": { "type": "object" }, "annotations": { "new": SECRET }, "icons": [{ "src": "", "new": SECRET }], "new": SECRET, "_meta": { "k": SECRET } })
            .to_string(),
    )
    .unwrap();
    silent("spec", &spec);
    let mut tools = ToolList::new([Arc::new(spec.clone())]);
    (tools.meta, tools.extra) = (secret_object(), secret_object());
    silent("tools", &tools);
    silent("reply of a list", &Reply::List(&mut tools));
    let with_state = sync_tool_fn_with_state("state", Loud(SECRET), |_: State<Loud>| "ran");
    silent("tool with state", &with_state);
    let probe = Probe::new();
    let controlled = Controlled::new();
    let router = Router::new()
        .tool(with_state)
        .tool(Tool::new(spec.clone(), probe.clone()))
        .tool(controlled.tool("wait"))
        .tool(tool_fn("reenters", |stack: Reentry| async move { format!("{stack:?}") }));
    silent("router", &router);
    silent("catalog", &router.catalog());
    silent("entry", &router.catalog().get("t").unwrap());
    let stack = Stack::new(router.clone().layer(gate("look", |_| Ok(()))));
    silent("stack", &stack);

    // Through a stack, and what is held meanwhile.
    let answers = stack.run_calls(vec![secret_call()]).await;
    silent("answered", &answers);
    silent("probe", &probe);
    let mut waiting = secret_call();
    waiting.rename("wait");
    let (response, ()) = tokio::join!(stack.run_call(waiting), async {
        let held = controlled.next().await;
        silent("held", &held);
        silent("controlled", &controlled);
    });
    silent("response of nobody", &response);
    let mut reentering = secret_call();
    reentering.rename("reenters");
    assert!(!stack.run_call(reentering).await.as_text().unwrap().contains(SECRET));
    silent("description", &stack.describe().await);

    // Futures that hold calls.
    silent("a call on its way", &tower::Service::call(&mut stack.clone(), secret_call()));
    silent("a call on its way to a router", &tower::Service::call(&mut router.clone(), secret_call()));
    let failed: Result<ToolResponse, BoxError> = Err(secret_refusal().into());
    silent("a boxed refusal", &failed);
}
