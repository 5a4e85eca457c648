//! Names, lists and data that arrive as they left: the cases E1, E7, E8, I1, I4, I5, I7 and I10.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use toolstack::{
    BoxError, ListTools, Refusal, RefusalKind, Router, Stack, StackExt, ToolCall, ToolResponse,
    layer::{
        CatchErrorLayer, CatchPanicLayer, TimeoutLayer, VisibilityLayer, after, calls, gate, gate_async, gate_tool, map_call, map_list,
        map_result,
    },
    middleware::{Next, from_fn},
    model::{Arguments, Content, Context, NameError, Outcome, Principal, RawObject, ToolList, ToolName, ToolResult, ToolSpec},
    router::RouterError,
    testing::{Probe, Recorder},
    tool::{Json, Tool, ToolError, blocking_tool_fn, sync_tool_fn, tool_fn},
};
use tower::{
    ServiceBuilder, ServiceExt, buffer::BufferLayer, filter::FilterLayer, limit::ConcurrencyLimitLayer, load_shed::LoadShedLayer,
    service_fn,
};

use super::hooks::{FORMS, block_on, by_every_entry, every_form, json_of, spec, stack};

// E1: what is listed can be called, and what is not cannot be told from what is not there.

/// A router as a plan: its tools with their tags, the routers within it, and what a layer around it hides.
#[derive(Clone, Debug)]
struct Plan {
    tools: Vec<(String, u8)>,
    within: Vec<(Option<String>, Self)>,
    hides: Option<Rule>,
}

/// Hides tools by what they are and who asks.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Tag(u8),
    Last(char),
    /// Hides a tag from whoever lacks the scope of that name.
    Scope(u8),
    All,
    Nothing,
}

const TAGS: [&str; 3] = ["red", "green", "blue"];

impl Rule {
    fn shows(self, name: &str, has_tag: impl Fn(&str) -> bool, context: &Context) -> bool {
        match self {
            Self::Tag(tag) => !has_tag(TAGS[usize::from(tag)]),
            Self::Last(last) => !name.ends_with(last),
            Self::Scope(tag) => !has_tag(TAGS[usize::from(tag)]) || context.principal().has_scope(TAGS[usize::from(tag)]),
            Self::All => false,
            Self::Nothing => true,
        }
    }

    fn shows_spec(self, spec: &ToolSpec, context: &Context) -> bool {
        self.shows(&spec.name, |tag| spec.has_tag(tag), context)
    }
}

fn rules() -> impl Strategy<Value = Rule> {
    prop_oneof![
        (0..3_u8).prop_map(Rule::Tag),
        prop_oneof![Just('a'), Just('b')].prop_map(Rule::Last),
        (0..3_u8).prop_map(Rule::Scope),
        Just(Rule::All),
        Just(Rule::Nothing),
    ]
}

fn names() -> impl Strategy<Value = String> {
    // Few letters, so that names meet; dots, so that they meet across levels.
    prop_oneof!["[ab]", "[ab][ab_]", "[ab]\\.[ab]", "[ab]\\.[ab]\\.[ab]"]
}

fn plans() -> impl Strategy<Value = Plan> {
    let leaf = (proptest::collection::vec((names(), 0..8_u8), 0..4), proptest::option::of(rules())).prop_map(|(tools, hides)| Plan {
        tools,
        within: Vec::new(),
        hides,
    });
    leaf.prop_recursive(3, 12, 3, |inner| {
        let within = proptest::collection::vec((proptest::option::of(prop_oneof!["[ab]", "[ab]\\.[ab]"]), inner), 0..3);
        (proptest::collection::vec((names(), 0..8_u8), 0..4), within, proptest::option::of(rules()))
            .prop_map(|(tools, within, hides)| Plan { tools, within, hides })
    })
}

/// A tool as it is known at some place: the marks that it answers with, and its tags.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    mark: usize,
    tags: u8,
    visible: bool,
}

fn has(tags: u8, tag: &str) -> bool {
    TAGS.iter().position(|name| *name == tag).is_some_and(|at| tags & (1 << at) != 0)
}

/// Builds the router, and beside it what should be known of it by name.
fn build(plan: &Plan, context: &Context, marks: &mut usize) -> (Router, BTreeMap<String, Known>) {
    let mut router = Router::new();
    let mut known = BTreeMap::new();
    for (name, tags) in &plan.tools {
        let mark = *marks;
        *marks += 1;
        let mut tool = sync_tool_fn(name, move || format!("mark {mark}")).boxed();
        for tag in TAGS.iter().filter(|tag| has(*tags, tag)) {
            tool = tool.tag(*tag);
        }
        if mark % 3 == 1 {
            // A tool with layers of its own.
            tool = tool.layer(gate_tool("own", |_, _| Ok(()))).layer(TimeoutLayer::new(Duration::from_secs(9))).boxed();
        }
        let added = router.clone().try_tool(tool);
        assert_eq!(added.is_ok(), !known.contains_key(name), "a second tool of a name is an error at set-up");
        known.entry(name.clone()).or_insert(Known { mark, tags: *tags, visible: true });
    }
    for (prefix, within) in &plan.within {
        let (inner, names) = build(within, context, marks);
        let outside = |name: &str| prefix.as_ref().map_or_else(|| name.to_owned(), |prefix| format!("{prefix}.{name}"));
        let added = match prefix {
            None => router.clone().try_merge(inner),
            Some(prefix) => router.clone().try_nest(prefix, inner),
        };
        let clash = names.keys().any(|name| known.contains_key(&outside(name)));
        assert_eq!(added.is_ok(), !clash, "routers whose names clash cannot be put together");
        if !clash {
            known.extend(names.into_iter().map(|(name, tool)| (outside(&name), tool)));
        }
    }
    if let Some(rule) = plan.hides {
        router = router.layer(VisibilityLayer::new(move |spec, context| rule.shows_spec(spec, context)));
        for (name, tool) in &mut known {
            tool.visible &= rule.shows(name, |tag| has(tool.tags, tag), context);
        }
    }
    (router, known)
}

/// The whole answer for a tool that is not there.
fn unknown(name: &str) -> String {
    let text = Value::from(format!("Unknown tool: {name}")).to_string();
    format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":{text}}}],"isError":true}}"#)
}

fn assert_unknown(name: &str, response: &ToolResponse, what: &str) {
    assert_eq!(json_of(response), unknown(name), "{what}");
    let refusal = response.refusal().unwrap();
    let parts = (refusal.kind(), refusal.by(), refusal.message().to_owned(), refusal.retry_after(), refusal.challenge());
    assert_eq!(parts, (RefusalKind::UnknownTool, "router", format!("Unknown tool: {name}"), None, None), "{what}");
    assert!(std::error::Error::source(refusal).is_none(), "{what}");
    assert_eq!(format!("{response:?}"), format!("{:?}", ToolResponse::refused(refusal.clone())), "{what}");
}

fn around(kind: u8, rule: Option<Rule>, router: Router) -> Stack {
    let hide = move |spec: &ToolSpec, context: &Context| rule.is_none_or(|rule| rule.shows_spec(spec, context));
    match kind {
        0 => stack!(VisibilityLayer::new(hide), router),
        1 => stack!(CatchPanicLayer::new(), VisibilityLayer::new(hide), ConcurrencyLimitLayer::new(2), router),
        2 => stack!(gate_async("ask", async |_| Ok(())), VisibilityLayer::new(hide), gate_tool("look", |_, _| Ok(())), router),
        3 => stack!(calls(BufferLayer::new(2)), VisibilityLayer::new(hide), Stack::new(router)),
        4 => stack!(VisibilityLayer::new(hide), from_fn(async |call: ToolCall, next: Next<_>| next.run(call).await), router),
        _ => stack!(Recorder::new().layer("place"), router.layer(VisibilityLayer::new(hide))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn e01_a_name_is_listed_if_and_only_if_it_is_not_answered_as_unknown(
        plan in plans(),
        outermost in proptest::option::of(rules()),
        kind in 0..6_u8,
        scopes in proptest::collection::btree_set(0..3_usize, 0..3),
        others in proptest::collection::vec(prop_oneof![names(), "[abAB._ ]{0,6}", any::<String>()], 0..6),
        at_once in any::<bool>(),
    ) {
        let principal = scopes.iter().fold(Principal::new("ada"), |principal, scope| principal.scope(TAGS[*scope]));
        let context = Context::new().with_principal(principal);
        let (router, mut known) = build(&plan, &context, &mut 0);
        if let Some(rule) = outermost {
            for (name, tool) in &mut known {
                tool.visible &= rule.shows(name, |tag| has(tool.tags, tag), &context);
            }
        }
        block_on(async {
            let stack = around(kind, outermost, router);
            let list = stack.run_list(ListTools::new().with_context(context.clone())).await;
            let listed: Vec<_> = list.names().map(str::to_owned).collect();
            let expected: Vec<_> = known.iter().filter(|(_, tool)| tool.visible).map(|(name, _)| name.clone()).collect();
            assert_eq!(listed, expected, "what is listed is what the rules show, in the order of names");

            let mut asked: BTreeSet<String> = known.keys().cloned().chain(others.clone()).collect();
            asked.extend(known.keys().flat_map(|name| [format!("{name}."), format!("a.{name}"), format!(".{name}"), name.to_uppercase()]));
            let calls: Vec<_> = asked.iter().map(|name| ToolCall::new(name, json!({})).with_context(context.clone())).collect();
            let answers: Vec<_> = if at_once {
                stack.run_calls(calls).await.into_iter().map(|answer| answer.response).collect()
            } else {
                let mut answers = Vec::new();
                for call in calls {
                    answers.push(stack.run_call(call).await);
                }
                answers
            };
            for (name, response) in asked.iter().zip(&answers) {
                let unknown = response.refusal().map(Refusal::kind) == Some(RefusalKind::UnknownTool);
                assert_eq!(listed.contains(name), !unknown, "{name}: {response:?}");
                match known.get(name) {
                    // The very tool of that name answered (E7).
                    Some(tool) if tool.visible => assert_eq!(response.as_text().unwrap(), format!("mark {}", tool.mark), "{name}"),
                    _ => assert_unknown(name, response, name),
                }
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn e01_what_hides_a_tool_hides_it_by_every_form_and_way_in() {
    for hidden in FORMS {
        let ran = Arc::new(AtomicBool::new(false));
        let forms = every_form({
            let ran = Arc::clone(&ran);
            move |_| {
                ran.store(true, Ordering::SeqCst);
                ToolResponse::text("ran")
            }
        });
        // Around the stack, around the router, within a nested router.
        let last = hidden.rsplit('.').next().unwrap();
        for (place, stack) in [
            ("the stack", stack!(VisibilityLayer::new(move |tool, _| tool.name != hidden), forms.clone())),
            ("the router", stack!(forms.clone().layer(VisibilityLayer::new(move |tool, _| tool.name != hidden)))),
            ("a tag", {
                let hide = VisibilityLayer::new(move |tool: &ToolSpec, _: &Context| !tool.has_tag("hidden"));
                let tag = map_list("show the tag to nobody", |_, _| {});
                let tool = sync_tool_fn(last, || "ran").tag("hidden");
                let within = match hidden.rsplit_once('.') {
                    Some((prefix, _)) => Router::new().nest(prefix, Router::new().tool(tool)),
                    None => Router::new().tool(tool),
                };
                stack!(hide, tag, within)
            }),
        ] {
            let list = stack.list_tools().await;
            assert!(list.get(hidden).is_none(), "{hidden} around {place}");
            for (entry, response) in by_every_entry(&stack, || ToolCall::new(hidden, json!({ "a": 1 }))).await {
                assert_unknown(hidden, &response, &format!("{hidden} by {entry} around {place}"));
            }
        }
        assert!(!ran.load(Ordering::SeqCst), "{hidden}");
    }
}

#[tokio::test(start_paused = true)]
async fn e01_a_rule_that_changes_its_mind_changes_lists_and_calls_together() {
    let open = Arc::new(AtomicBool::new(true));
    let rule = {
        let open = Arc::clone(&open);
        VisibilityLayer::new(move |tool: &ToolSpec, _: &Context| !tool.has_tag("door") || open.load(Ordering::SeqCst))
    };
    let nested = Router::new().tool(Probe::new().tool("a").tag("door")).layer(rule.clone());
    let stack = stack!(rule, Router::new().tool(Probe::new().tool("b").tag("door")).nest("ns", nested).tool(Probe::new().tool("c")));
    for state in [true, false, true] {
        open.store(state, Ordering::SeqCst);
        let list = stack.list_tools().await;
        for name in ["b", "ns.a", "c"] {
            let response = stack.call_tool(name, json!({})).await;
            assert_eq!(list.get(name).is_some(), response.is_completed(), "{name}");
            assert_eq!(response.is_completed(), state || name == "c", "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e01_tools_that_come_and_go_are_judged_as_they_are_now() {
    let nested = Router::new();
    let (inner, outer) = (nested.handle(), Router::new().nest("ns", nested));
    let handle = outer.handle();
    let stack = stack!(VisibilityLayer::new(|tool, _| !tool.has_tag("hidden")), outer);
    for round in 0..3 {
        inner.replace(sync_tool_fn("t", move || round).tag(if round == 1 { "hidden" } else { "shown" })).unwrap();
        handle.replace(sync_tool_fn("u", move || round).tag(if round == 2 { "hidden" } else { "shown" })).unwrap();
        let list = stack.list_tools().await;
        for (name, hidden) in [("ns.t", 1), ("u", 2)] {
            let response = stack.call_tool(name, json!({})).await;
            assert_eq!(list.get(name).is_some(), round != hidden, "{name} in round {round}");
            if round == hidden {
                assert_unknown(name, &response, name);
            } else {
                assert_eq!(response.as_text().unwrap(), round.to_string(), "the tool that there is now");
            }
        }
    }
    assert!(inner.remove("t") && handle.remove("u"));
    assert_eq!(stack.list_tools().await.tools().len(), 0);
    for name in ["ns.t", "u"] {
        assert_unknown(name, &stack.call_tool(name, json!({})).await, name);
    }
}

#[tokio::test(start_paused = true)]
async fn e01_a_list_that_is_changed_within_does_not_change_what_is_hidden() {
    let strip = || {
        map_list("strip", |list, _| {
            list.map(|spec| {
                let mut spec = (*spec).clone();
                spec.tags.clear();
                spec.description = None;
                spec.into()
            });
        })
    };
    let router = || {
        Router::new()
            .tool(Probe::new().tool("a").tag("hidden"))
            .tool(Probe::new().tool("b").describe("secret"))
            .tool(Probe::new().tool("c"))
    };
    let rule = || VisibilityLayer::new(|tool: &ToolSpec, _: &Context| !tool.has_tag("hidden") && tool.description.is_none());
    for stack in [
        stack!(rule(), strip(), router()),
        stack!(rule(), router().layer(strip())),
        stack!(rule(), Router::new().merge(router().layer(strip()))),
        // One that shows a tool that is not there.
        stack!(
            rule(),
            map_list("add", |list, _| *list = ToolList::new(list.tools().iter().cloned().chain([Arc::new(spec("d"))]))),
            router()
        ),
    ] {
        assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["c"]);
        for name in ["a", "b", "d"] {
            assert_unknown(name, &stack.call_tool(name, json!({})).await, name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e01_what_only_a_fallback_answers_is_in_no_list_and_hidden_by_a_rule() {
    let answer = service_fn(|_: ToolCall| async { Ok::<_, BoxError>(ToolResponse::text("fallback")) });
    let router = || Router::new().tool(Probe::new().tool("a")).nest("ns", Router::new().fallback(answer)).fallback(answer);
    let open = stack!(router());
    let ruled = stack!(VisibilityLayer::new(|_, _| true), router());
    for name in ["no_such_tool", "ns.no_such_tool"] {
        assert_eq!(open.call_tool(name, json!({})).await.as_text().as_deref(), Some("fallback"));
        assert_unknown(name, &ruled.call_tool(name, json!({})).await, name);
    }
    assert_eq!(open.list_tools().await.names().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn e01_a_tool_with_too_long_a_name_outside_is_neither_listed_nor_called() {
    let inner = Router::new();
    let handle = inner.handle();
    let prefix = "p".repeat(100);
    let stack = stack!(Router::new().nest(&prefix, inner));
    let probe = Probe::new();
    // Fits inside, and comes after set-up could have refused it.
    handle.insert(probe.tool(&"t".repeat(50))).unwrap();
    handle.insert(probe.tool("fits")).unwrap();
    assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), [format!("{prefix}.fits")]);
    let name = format!("{prefix}.{}", "t".repeat(50));
    assert_unknown(&name, &stack.call_tool(&name, json!({})).await, "too long");
    assert_eq!(probe.runs(), 0);
    assert!(stack.call_tool(format!("{prefix}.fits"), json!({})).await.is_completed());
}

// E7: two names never become one.

#[test]
fn e07_names_that_look_alike_stay_apart() {
    // As registered, and as put together from a prefix.
    let alike = ["a.b", "a_b", "a-b", "ab", "A.b", "a.B", "a..b", "a.b.", ".a.b", "_a.b", "a.b_", "a._b", "a_.b"];
    let router = alike.iter().fold(Router::new(), |router, name| {
        let mark = (*name).to_owned();
        router.tool(sync_tool_fn(name, move || mark.clone()))
    });
    let nested =
        [("x_", "y"), ("x", "_y"), ("x", "y"), ("X", "y"), ("x.", "y"), ("x", ".y2")].into_iter().fold(router, |router, (prefix, name)| {
            let mark = format!("{prefix}+{name}");
            router.nest(prefix, Router::new().tool(sync_tool_fn(name, move || mark.clone())))
        });
    block_on(async {
        let list = nested.list_tools().await;
        let names: BTreeSet<_> = list.names().collect();
        assert_eq!((names.len(), list.tools().len()), (alike.len() + 6, alike.len() + 6));
        for name in alike {
            assert_eq!(nested.call_tool(name, json!({})).await.as_text().as_deref(), Some(name));
        }
        for (name, mark) in [("x_.y", "x_+y"), ("x._y", "x+_y"), ("x.y", "x+y"), ("X.y", "X+y"), ("x..y", "x.+y"), ("x..y2", "x+.y2")] {
            assert_eq!(nested.call_tool(name, json!({})).await.as_text().as_deref(), Some(mark), "{name}");
        }
    });
}

#[test]
fn e07_two_ways_to_the_same_name_are_an_error_where_they_are_set_up() {
    let tool = |name: &str| Router::new().tool(Probe::new().tool(name));
    let clash = |result: Result<Router, RouterError>, name: &str| {
        let error = result.expect_err(name);
        assert_eq!(error, RouterError::Duplicate(ToolName::new(name).unwrap()));
        assert!(error.to_string().contains(name), "the error names the tool: {error}");
    };
    clash(tool("a").try_tool(Probe::new().tool("a")), "a");
    clash(tool("a").try_merge(tool("a")), "a");
    clash(tool("a.b.c").try_nest("a", tool("b.c")), "a.b.c");
    clash(tool("a.b.c").try_nest("a.b", tool("c")), "a.b.c");
    clash(Router::new().nest("a", tool("b.c")).try_nest("a.b", tool("c")), "a.b.c");
    clash(Router::new().nest("a.b", tool("c")).try_nest("a", tool("b.c")), "a.b.c");
    clash(Router::new().nest("a", Router::new().nest("b", tool("c"))).try_nest("a", tool("b.c")), "a.b.c");
    clash(Router::new().nest("a", tool("b.c")).try_tool(Probe::new().tool("a.b.c")), "a.b.c");
    clash(Router::new().merge(tool("a")).try_tool(Probe::new().tool("a")), "a");
    clash(tool("a").layer(map_result("m", |_| {})).try_tool(Probe::new().tool("a")), "a");
    clash(tool("a").layer(map_result("m", |_| {})).try_merge(tool("a")), "a");
    // A router that refused stays as it was.
    let router = tool("a");
    assert!(router.clone().try_merge(tool("b").merge(tool("a"))).is_err());
    assert_eq!(router.catalog().list().names().collect::<Vec<_>>(), ["a"]);
    // Hidden or not, a name is taken.
    clash(tool("a").layer(VisibilityLayer::new(|_, _| false)).try_merge(tool("a")), "a");
}

#[test]
fn e07_a_name_that_is_taken_cannot_be_taken_at_run_time_either() {
    let inner = Router::new().tool(Probe::new().tool("b.c"));
    let (inside, outer) = (inner.handle(), Router::new().nest("a", inner).tool(Probe::new().tool("d")));
    let outside = outer.handle();
    for name in ["a.b.c", "d"] {
        assert_eq!(outside.insert(Probe::new().tool(name)), Err(RouterError::Duplicate(ToolName::new(name).unwrap())));
    }
    assert_eq!(inside.insert(Probe::new().tool("b.c")), Err(RouterError::Duplicate(ToolName::new("b.c").unwrap())));
    assert_eq!(outer.catalog().list().tools().len(), 2);
}

/// What a router is asked to do while it runs.
#[derive(Clone, Debug)]
enum Doing {
    Insert(usize, String),
    Replace(usize, String),
    Remove(usize, String),
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn e07_a_listed_name_always_reaches_the_very_tool_of_that_name(
        doings in proptest::collection::vec((0..3_u8, 0..4_usize, names()), 0..24),
        layered: bool,
    ) {
        // An outer router, two within it whose names may meet, and one within both of these.
        let (ab, a, deep) = (Router::new(), Router::new(), Router::new());
        let mut handles = vec![ab.handle(), a.handle(), deep.handle()];
        let a = a.nest("b", deep);
        let a = if layered { a.layer(map_result("m", |_| {})) } else { a };
        let outer = Router::new().nest("a.b", ab).nest("a", a);
        handles.push(outer.handle());
        let prefixes = ["a.b.", "a.", "a.b.", ""];

        let doings = doings.into_iter().map(|(what, at, name)| match what {
            0 => Doing::Insert(at, name),
            1 => Doing::Replace(at, name),
            _ => Doing::Remove(at, name),
        });
        block_on(async {
            for (mark, doing) in doings.enumerate() {
                // A tool says where it is, which one it is, and what it should be called by.
                let tool = |at: usize, name: &str| {
                    let called = format!("{}{name}", prefixes[at]);
                    sync_tool_fn(name, move || format!("{called} {mark}")).describe(mark.to_string())
                };
                match &doing {
                    Doing::Insert(at, name) => drop(handles[*at].insert(tool(*at, name))),
                    Doing::Replace(at, name) => drop(handles[*at].replace(tool(*at, name))),
                    Doing::Remove(at, name) => drop(handles[*at].remove(name)),
                }
                let list = outer.list_tools().await;
                let names: BTreeSet<_> = list.names().collect();
                assert_eq!(names.len(), list.tools().len(), "{doing:?}: a name stands twice in the list");
                for listed in list.tools() {
                    let response = outer.call_tool(listed.name.as_str(), json!({})).await;
                    let expected = format!("{} {}", listed.name, listed.description.as_deref().unwrap());
                    assert_eq!(response.as_text().unwrap(), expected, "after {doing:?}: the tool that answers is the one that is listed");
                }
                let catalog: Vec<_> = outer.catalog().list().names().map(str::to_owned).collect();
                assert_eq!(catalog, list.names().collect::<Vec<_>>(), "{doing:?}");
            }
        });
    }
}

#[tokio::test]
async fn e07_a_policy_sees_the_name_that_is_called_and_a_nested_one_its_own() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let look = |place: &'static str| {
        let seen = Arc::clone(&seen);
        gate_tool("look", move |call, tool| {
            seen.lock().unwrap().push((place, call.name().to_string(), tool.spec().name.to_string()));
            Ok(())
        })
    };
    let nested = Router::new().tool(Probe::new().tool("c").layer(look("tool"))).layer(look("b"));
    let stack = stack!(look("stack"), Router::new().nest("a", Router::new().nest("b", nested).layer(look("a"))));
    stack.call_tool("a.b.c", json!({})).await;
    let expected =
        [("stack", "a.b.c"), ("a", "b.c"), ("b", "c"), ("tool", "c")].map(|(place, name)| (place, name.to_owned(), name.to_owned()));
    assert_eq!(*seen.lock().unwrap(), expected);
}

// E8: no name is mended; what is none is told.

#[test]
fn e08_a_name_that_breaks_the_rule_is_no_tool_and_the_error_says_why() {
    let too_long = "x".repeat(129);
    for (name, error) in [
        ("", NameError::Empty),
        (&too_long, ToolName::new(&too_long).unwrap_err()),
        ("a b", ToolName::new("a b").unwrap_err()),
        ("a/b", ToolName::new("a/b").unwrap_err()),
        ("a:b", ToolName::new("a:b").unwrap_err()),
        ("a\u{1f600}", ToolName::new("a\u{1f600}").unwrap_err()),
        ("\u{ff41}", ToolName::new("\u{ff41}").unwrap_err()),
        ("a\0", ToolName::new("a\0").unwrap_err()),
        (" a", ToolName::new(" a").unwrap_err()),
        ("a\n", ToolName::new("a\n").unwrap_err()),
    ] {
        let text = error.to_string();
        assert!(text.contains("128") || text.contains("[A-Za-z0-9_.-]"), "{name:?}: {text}");
        assert_eq!(name.parse::<ToolName>(), Err(error), "{name:?}");
        // By every way to a tool.
        let json = json!({ "name": name, "inputSchema": { "type": "object" } }).to_string();
        assert!(serde_json::from_str::<ToolSpec>(&json).unwrap_err().to_string().contains(&text), "{name:?}");
        let panics = std::panic::catch_unwind(|| drop(sync_tool_fn(name, || "")));
        let message = *panics.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains(&text), "{name:?}: {message}");
        if !name.is_empty() {
            assert!(matches!(Router::new().try_nest(name, Router::new()), Err(RouterError::Name { .. })), "{name:?}");
        }
    }
    for name in ["a", "A.b_C-9", ".", "-", "_", "..", &"x".repeat(128)] {
        assert_eq!(ToolName::new(name).unwrap(), *name);
    }
}

#[test]
fn e08_a_name_that_grows_too_long_in_a_nested_router_is_an_error_where_it_is_set_up() {
    let router = |length: usize| Router::new().tool(Probe::new().tool(&"t".repeat(length)));
    // A prefix and a dot of ten together.
    assert!(Router::new().try_nest("prefix_of9", router(117)).is_ok());
    for (prefix, length) in [("prefix_of9", 118), ("p", 127), ("p", 128)] {
        let error = Router::new().try_nest(prefix, router(length)).unwrap_err();
        let total = prefix.len() + 1 + length;
        assert!(matches!(&error, RouterError::Name { error: NameError::TooLong { length, .. }, .. } if *length == total), "{error}");
        assert!(error.to_string().contains(prefix), "{error}");
    }
    let deep = Router::new().nest(&"b".repeat(60), router(60));
    assert!(matches!(Router::new().try_nest(&"a".repeat(10), deep), Err(RouterError::Name { .. })));
    let empty = Router::new();
    assert!(matches!(Router::new().try_nest("", empty.clone()), Err(RouterError::Name { error: NameError::Empty, .. })));
    assert!(matches!(
        Router::new().try_nest("a b", empty),
        Err(RouterError::Name { error: NameError::Character { character: ' ', .. }, .. })
    ));
}

#[test]
fn e08_what_is_asked_for_is_never_mended_into_the_name_of_a_tool() {
    let probe = Probe::new();
    let names = ["a_b", "a.b", "ab", "tool", "x"];
    let router = names.iter().fold(Router::new(), |router, name| router.tool(probe.tool(name)));
    let long = format!("x{}", " ".repeat(5000));
    let cut = "x".repeat(5000);
    block_on(async {
        for asked in [
            "a b",
            "a/b",
            "a:b",
            "a b ",
            " ab",
            "ab ",
            "ab\n",
            "AB",
            "Ab",
            "a\u{200b}b",
            "ab\0",
            "TOOL",
            "functions.tool",
            "tool()",
            "\"tool\"",
            "x\u{301}",
            "%61b",
            "a%5Fb",
            "",
            ".",
            &long,
            &cut,
        ] {
            let call = ToolCall::new(asked, json!({}));
            if asked.len() <= 512 {
                assert_eq!(call.name().as_str(), asked, "the name is kept as it was asked for");
            }
            assert!(!names.contains(&call.name().as_str()));
            let response = router.run_call(call).await;
            assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::UnknownTool), "{asked:?}");
            // The same from a client's text.
            let call: ToolCall = serde_json::from_str(&json!({ "id": 1, "name": asked }).to_string()).unwrap();
            assert_eq!(router.run_call(call).await.refusal().map(Refusal::kind), Some(RefusalKind::UnknownTool), "{asked:?}");
        }
    });
    assert_eq!(probe.runs(), 0);
}

// I1 and I4: numbers, size and depth.

/// Values that lose something in careless hands.
const EXACT: &str = r#"{"big":9007199254740993,"min":-9223372036854775808,"max":18446744073709551615,"beyond":18446744073709551616,"below":-9223372036854775809,"huge":1e400,"tiny":-1E-400,"zero":-0.0,"minus":-0,"one":1.0,"sum":0.30000000000000004,"digits":0.123456789012345678901234567890,"thirty":123456789012345678901234567890,"exp":1.50e+03,"nested":[[9007199254740993,{"n":18446744073709551615}]]}"#;

/// Every layer that there is, around that.
fn every_layer(router: Router) -> Stack {
    stack!(
        CatchPanicLayer::new(),
        Recorder::new().layer("place"),
        CatchErrorLayer::new(),
        VisibilityLayer::new(|_, _| true),
        map_call("map_call", |_| {}),
        gate("gate", |call| {
            // Looking does no harm, whether there is something to see or not.
            let _ = (call.arguments.value().is_ok(), call.arguments.object().is_ok(), call.arguments.size());
            Ok(())
        }),
        gate_tool("gate_tool", |_, _| Ok(())),
        gate_async("gate_async", async |_| Ok(())),
        from_fn(async |call: ToolCall, next: Next<_>| next.run(call).await),
        map_result("map_result", |_| {}),
        map_list("map_list", |_, _| {}),
        after("after", |_| {}),
        TimeoutLayer::new(Duration::from_secs(3600)).idle(Duration::from_secs(3600)),
        tower::timeout::TimeoutLayer::new(Duration::from_secs(3600)),
        calls(BufferLayer::new(4)),
        calls(FilterLayer::new(|call: ToolCall| Ok::<_, BoxError>(call))),
        LoadShedLayer::new(),
        ConcurrencyLimitLayer::new(8),
        router
    )
}

/// A result that carries `json` wherever a result can carry any JSON.
fn carrying(json: &str) -> ToolResponse {
    let text = Value::from(json).to_string();
    let carrier = format!(
        r#"{{"resultType":"complete","content":[{{"type":"text","text":{text},"new":{json},"_meta":{{"k":{json}}}}},{{"type":"unheard_of","x":{json}}}],"structuredContent":{json},"new":{json},"_meta":{{"k":{json}}}}}"#
    );
    serde_json::from_str(&carrier).unwrap()
}

#[tokio::test(start_paused = true)]
async fn i01_numbers_pass_every_layer_and_every_form_of_tool_bit_for_bit() {
    let stack = every_layer(every_form(|call| carrying(call.arguments.as_json().unwrap())));
    let expected = json_of(&carrying(EXACT));
    for form in FORMS {
        for (entry, response) in by_every_entry(&stack, || ToolCall::new(form, Arguments::from_text(EXACT))).await {
            assert_eq!(json_of(&response), expected, "{form} by {entry}");
            let text = response.as_text().unwrap().into_owned();
            assert_eq!(text, EXACT, "{form} by {entry}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn i01_numbers_pass_a_fallback_and_interim_answers_bit_for_bit() {
    let echo = service_fn(|call: ToolCall| async move { Ok::<_, BoxError>(carrying(call.arguments.as_json()?)) });
    let stack = stack!(CatchPanicLayer::new(), Router::new().nest("ns", Router::new().fallback(echo)));
    let response = stack.call_tool("ns.any", Arguments::from_text(EXACT)).await;
    assert_eq!(json_of(&response), json_of(&carrying(EXACT)));

    for interim in [
        format!(r#"{{"resultType":"input_required","inputRequests":{{"q":{EXACT}}},"requestState":"s","new":{EXACT},"_meta":{EXACT}}}"#),
        format!(r#"{{"resultType":"task","taskId":"t","status":"working","pollIntervalMs":{EXACT},"_meta":{EXACT}}}"#),
    ] {
        let answer = interim.clone();
        let stack = every_layer(every_form(move |_| serde_json::from_str(&answer).unwrap()));
        for form in FORMS {
            assert_eq!(json_of(&stack.call_tool(form, json!({})).await), interim, "{form}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn i01_what_a_client_sends_arrives_and_leaves_bit_for_bit() {
    // A call as text, through the stack, and the call that the tool saw as text again.
    let json = format!(
        r#"{{"id":9007199254740993,"name":"NAME","arguments":{EXACT},"inputResponses":{{"q":{EXACT}}},"requestState":"s","new":{EXACT},"_meta":{{"k":{EXACT}}}}}"#
    );
    let seen = Arc::new(Mutex::new(String::new()));
    let stack = every_layer(every_form({
        let seen = Arc::clone(&seen);
        move |call| {
            *seen.lock().unwrap() = serde_json::to_string(call).unwrap();
            ToolResponse::text("ran")
        }
    }));
    for form in FORMS.into_iter().filter(|form| *form != "caller") {
        let json = json.replace("NAME", form);
        let call: ToolCall = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&call).unwrap(), json);
        assert!(stack.run_call(call).await.is_completed(), "{form}");
        // The tool knows itself by the name within.
        let within = match form {
            "ns.nested" | "ns.deep.er" | "lns.layered_nested" => json.replace(form, form.rsplit('.').next().unwrap()),
            _ => json,
        };
        assert_eq!(*seen.lock().unwrap(), within, "{form}");
    }
}

#[tokio::test(start_paused = true)]
async fn i01_a_schema_and_a_list_keep_their_numbers() {
    let schema =
        format!(r#"{{"type":"object","default":{EXACT2},"maximum":18446744073709551615}}"#, EXACT2 = r#"{"n":9007199254740993,"x":1.0}"#);
    let spec = format!(r#"{{"name":"t","inputSchema":{schema},"outputSchema":{schema},"new":{EXACT},"_meta":{EXACT}}}"#);
    let spec: ToolSpec = serde_json::from_str(&spec).unwrap();
    let json = serde_json::to_string(&spec).unwrap();
    let tool = Tool::new(spec, Probe::new());
    let stack = every_layer(
        Router::new()
            .tool(tool.clone())
            .nest("ns", Router::new().tool(tool.clone().layer(map_result("m", |_| {}))).layer(map_list("m", |_, _| {}))),
    );
    let list = serde_json::to_string(&stack.list_tools().await).unwrap();
    let nested = json.replacen(r#""name":"t""#, r#""name":"ns.t""#, 1);
    assert_eq!(list, format!(r#"{{"tools":[{nested},{json}]}}"#));
    let again: ToolList = serde_json::from_str(&list).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), list);
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Numbers {
    big: i64,
    min: i64,
    max: u64,
    one: f64,
    zero: f64,
    sum: f64,
    #[schemars(with = "f64")]
    beyond: u128,
    #[schemars(with = "f64")]
    digits: Box<RawValue>,
    #[schemars(with = "f64")]
    huge: Box<RawValue>,
}

fn tell(numbers: &Numbers) -> String {
    let Numbers { big, min, max, one, zero, sum, beyond, digits, huge } = numbers;
    format!("{big} {min} {max} {one:?} {zero:?} {sum:?} {beyond} {digits} {huge}")
}

#[tokio::test(start_paused = true)]
async fn i01_a_typed_tool_reads_every_number_that_its_type_holds() {
    let stack = every_layer(
        Router::new()
            .tool(sync_tool_fn("sync", |numbers: Numbers| tell(&numbers)))
            .tool(tool_fn("async", |numbers: Numbers| async move { tell(&numbers) }))
            .tool(blocking_tool_fn("blocking", |numbers: Numbers| tell(&numbers)))
            .nest("ns", Router::new().tool(sync_tool_fn("nested", |numbers: Numbers| tell(&numbers)).layer(gate("own", |_| Ok(()))))),
    );
    let expected = "9007199254740993 -9223372036854775808 18446744073709551615 1.0 -0.0 0.30000000000000004 18446744073709551616 \
                    0.123456789012345678901234567890 1e400";
    for name in ["sync", "async", "blocking", "ns.nested"] {
        let response = stack.call_tool(name, Arguments::from_text(EXACT)).await;
        assert_eq!(response.as_text().as_deref(), Some(expected), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn i01_what_a_typed_tool_answers_is_exact() {
    #[derive(serde::Serialize, JsonSchema)]
    struct Out {
        max: u64,
        min: i64,
        sum: f64,
        one: f64,
        zero: f64,
    }
    let out = || Out { max: u64::MAX, min: i64::MIN, sum: 0.1 + 0.2, one: 1.0, zero: -0.0 };
    let stack = every_layer(
        Router::new()
            .tool(sync_tool_fn("json", move || Json(out())))
            .tool(sync_tool_fn("i128", || i128::MIN))
            .tool(sync_tool_fn("u64", || u64::MAX))
            .tool(sync_tool_fn("f64", || 0.1 + 0.2)),
    );
    let json = r#"{"max":18446744073709551615,"min":-9223372036854775808,"sum":0.30000000000000004,"one":1.0,"zero":-0.0}"#;
    let response = stack.call_tool("json", json!({})).await;
    assert_eq!(response.as_text().as_deref(), Some(json));
    assert_eq!(response.result().unwrap().structured_content().map(RawValue::get), Some(json));
    assert_eq!(stack.call_tool("i128", json!({})).await.as_text().unwrap(), i128::MIN.to_string());
    assert_eq!(stack.call_tool("u64", json!({})).await.as_text().unwrap(), u64::MAX.to_string());
    assert_eq!(stack.call_tool("f64", json!({})).await.as_text().unwrap(), "0.30000000000000004");
}

#[tokio::test(start_paused = true)]
async fn i01_a_value_that_a_program_hands_over_is_the_same_as_its_text() {
    let value = json!({ "max": u64::MAX, "min": i64::MIN, "big": 9_007_199_254_740_993_i64, "one": 1.0, "zero": -0.0, "sum": 0.1 + 0.2 });
    let text = value.to_string();
    let stack = every_layer(every_form(|call| carrying(call.arguments.as_json().unwrap())));
    for form in FORMS {
        assert_eq!(json_of(&stack.call_tool(form, value.clone()).await), json_of(&carrying(&text)), "{form}");
    }
    assert_eq!(Arguments::from(value.clone()), Arguments::from_text(text.clone()));
    assert_eq!(*Arguments::from_text(text).value().unwrap(), value);
}

/// Any number that JSON can write.
fn numbers() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<i128>().prop_map(|n| n.to_string()),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?",
        any::<f64>().prop_filter_map("finite", |n| serde_json::Number::from_f64(n).map(|n| n.to_string())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn i01_any_number_is_exact_or_an_error_and_never_another_number(number in numbers()) {
        #[derive(Deserialize)]
        struct Field<T> {
            n: T,
        }
        fn read<T: DeserializeOwned>(arguments: &Arguments) -> Option<T> {
            arguments.deserialize::<Field<T>>().ok().map(|field| field.n)
        }

        let text = format!(r#"{{"n":{number},"deep":[{{"n":{number}}}]}}"#);
        let arguments = Arguments::from_text(text.clone());
        prop_assert_eq!(arguments.as_json().unwrap(), text.as_str());
        prop_assert_eq!(serde_json::to_string(&arguments).unwrap(), text.as_str());
        let call = ToolCall::new("t", arguments.clone()).with_id("i");
        let again: ToolCall = serde_json::from_str(&serde_json::to_string(&call).unwrap()).unwrap();
        prop_assert_eq!(again.arguments.as_json().unwrap(), text.as_str());

        // Typed: what the type holds, and nothing near it.
        if number != "-0" {
            // Which is a zero with a sign, and so no integer.
            prop_assert_eq!(read::<i64>(&arguments), number.parse().ok());
            prop_assert_eq!(read::<u64>(&arguments), number.parse().ok());
            prop_assert_eq!(read::<i128>(&arguments), number.parse().ok());
        }
        let nearest: f64 = number.parse().unwrap();
        prop_assert_eq!(read::<f64>(&arguments).map(f64::to_bits), nearest.is_finite().then(|| nearest.to_bits()));
        prop_assert_eq!(read::<Box<RawValue>>(&arguments).map(|raw| raw.get().to_owned()), Some(number.clone()));

        // The view: the same number, or an error; where the view has it, so has a value that was handed over.
        let integer = !number.contains(['.', 'e', 'E']);
        match arguments.value() {
            Err(_) => prop_assert!(!nearest.is_finite() || integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()),
            Ok(value) if integer && number != "-0" => prop_assert_eq!(value["n"].to_string(), number.clone()),
            Ok(value) => prop_assert_eq!(value["n"].as_f64().map(f64::to_bits), Some(nearest.to_bits())),
        }
        if let Ok(value) = arguments.value() {
            let handed = Arguments::from(value.clone());
            prop_assert_eq!(read::<i64>(&handed), read::<i64>(&arguments));
            prop_assert_eq!(read::<u64>(&handed), read::<u64>(&arguments));
            prop_assert_eq!(read::<f64>(&handed).map(f64::to_bits), read::<f64>(&arguments).map(f64::to_bits));
        }
    }
}

/// Arguments that are large or deep, each with whether they can be read at all.
fn monsters() -> Vec<(&'static str, String, bool)> {
    let deep = |depth: usize| format!(r#"{{"a":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let deep_objects = format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    let wide = (0..10_000).map(|n| format!("\"k{n}\":{n}")).collect::<Vec<_>>().join(",");
    vec![
        ("depth 100", deep(100), true),
        ("depth 10,000", deep(10_000), false),
        ("depth 100,000", deep(100_000), false),
        ("objects, 10,000 deep", deep_objects, false),
        ("never closed", r#"{"a":"#.repeat(10_000), false),
        ("a long text", format!(r#"{{"a":"{}"}}"#, "x".repeat(1 << 20)), true),
        ("many keys", format!("{{{wide}}}"), true),
        ("many keys, one twice", format!("{{{wide},\"k7\":0}}"), false),
        ("a key twice", r#"{"a":1,"a":2}"#.to_owned(), false),
        ("a key twice, deep", r#"{"x":[{"a":1,"\u0061":2}]}"#.to_owned(), false),
        ("a long number", format!(r#"{{"a":{}}}"#, "9".repeat(100_000)), false),
        ("many items", format!(r#"{{"a":[{}1]}}"#, "1,".repeat(20_000)), true),
    ]
}

#[tokio::test(start_paused = true)]
async fn i04_huge_and_deep_arguments_arrive_as_they_came_or_are_a_typed_error() {
    let stack = every_layer(every_form(|call| match call.arguments.object() {
        Ok(object) => ToolResponse::text(object.len().to_string()),
        Err(error) => Refusal::new(RefusalKind::InvalidArguments, "unreadable").with_source(error).into(),
    }));
    let echo = every_layer(every_form(|call| ToolResponse::text(call.arguments.as_json().unwrap().to_owned())));
    for (what, text, readable) in monsters() {
        let arguments = Arguments::from_text(text.clone());
        assert_eq!(arguments.object().is_ok(), readable, "{what}");
        for form in ["sync", "blocking", "ns.deep.er", "as_tool"] {
            let response = stack.call_tool(form, arguments.clone()).await;
            assert_eq!(response.is_completed(), readable, "{what}: {form}");
            if !readable {
                assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::InvalidArguments), "{what}: {form}");
                assert!(json_of(&response).len() < 1000, "{what}: {form}");
            }
            assert!(*echo.call_tool(form, arguments.clone()).await.as_text().unwrap() == *text, "{what}: {form} got something else");
        }
        // Written out again as they are, where they are JSON.
        if what != "never closed" {
            assert!(serde_json::to_string(&arguments).unwrap() == text, "{what}");
        }
        assert!(format!("{arguments:?}").len() < 100, "{what}");
        assert!(arguments.clone() == arguments, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn i04_a_typed_tool_is_not_reached_by_what_it_cannot_read() {
    #[derive(Deserialize, JsonSchema)]
    struct Any {
        a: Option<Value>,
    }
    let stack = stack!(Router::new().tool(sync_tool_fn("any", |any: Any| any.a.is_some())));
    for (what, text, _) in monsters() {
        let response = stack.call_tool("any", Arguments::from_text(text)).await;
        if let Some(refusal) = response.refusal() {
            assert_eq!(refusal.kind(), RefusalKind::InvalidArguments, "{what}");
            assert!(refusal.message().len() < 300, "{what}: {}", refusal.message().len());
        } else {
            assert!(response.is_completed(), "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn i04_huge_and_deep_results_pass_as_they_came() {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let long = Value::from("x".repeat(1 << 20)).to_string();
    for json in [deep, long] {
        let response = carrying(&json);
        let expected = json_of(&response);
        let stack = every_layer(every_form(move |_| response.clone()));
        for form in ["sync", "blocking", "service", "ns.deep.er", "as_tool"] {
            assert!(json_of(&stack.call_tool(form, json!({})).await) == expected, "{form}");
        }
    }
}

// I5: a text of JSON is a text.

#[tokio::test(start_paused = true)]
async fn i05_arguments_in_a_string_are_told_so_and_never_read_as_something_else() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(default)]
    #[derive(Default)]
    struct Lenient {
        a: i64,
    }
    let twice = Value::from(r#"{"a":1}"#);
    let thrice = Value::from(twice.to_string());
    for value in [twice, thrice, json!(""), json!("a"), json!("null"), json!("{}")] {
        for arguments in [Arguments::from_text(value.to_string()), Arguments::from_text(format!(" \n{value}")), value.clone().into()] {
            let error = arguments.object().unwrap_err().to_string();
            assert_eq!(error, "the arguments must be a JSON object, not a string");
            assert!(arguments.deserialize::<Lenient>().is_err() && arguments.deserialize::<BTreeMap<String, Value>>().is_err());
            // An enum is written as a string, and would take one.
            #[derive(Debug, Deserialize)]
            enum Word {
                #[serde(rename = "a")]
                A,
            }
            assert!(arguments.deserialize::<Word>().is_err());
            assert_eq!(serde_json::from_str::<Value>(arguments.as_json().unwrap()).unwrap(), value, "and it stays what it is");

            let got = Arc::new(Mutex::new(Vec::new()));
            let keep = {
                let got = Arc::clone(&got);
                sync_tool_fn("raw", move |arguments: Arguments| {
                    got.lock().unwrap().push(arguments.value().unwrap().clone());
                    "ran"
                })
            };
            let stack = every_layer(Router::new().tool(keep).tool(sync_tool_fn("typed", |lenient: Lenient| lenient.a)));
            let response = stack.call_tool("typed", arguments.clone()).await;
            assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::InvalidArguments));
            assert!(response.as_text().unwrap().contains("not a string"), "{response:?}");
            assert!(stack.call_tool("raw", arguments).await.is_completed());
            assert_eq!(*got.lock().unwrap(), std::slice::from_ref(&value), "a tool that takes anything is given exactly this");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn i05_what_is_no_object_fills_no_typed_arguments() {
    #[derive(Debug, Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only to be filled")]
    struct Pair {
        a: i64,
        b: i64,
    }
    let stack = stack!(
        Router::new()
            .tool(sync_tool_fn("pair", |pair: Pair| pair.a))
            .tool(sync_tool_fn("unit", |_: Map<Value>| "ran"))
            .tool(sync_tool_fn("optional", |pair: Optional| pair.0.map_or(0, |pair| pair.a)))
    );
    /// Any object.
    type Map<T> = BTreeMap<String, T>;
    /// Would be `None` for `null`.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(transparent)]
    struct Optional(Option<Pair>);

    for (text, found) in [("[1,2]", "an array"), ("null", "null"), ("true", "a boolean"), ("7", "a number"), ("\"x\"", "a string")] {
        for name in ["pair", "unit", "optional"] {
            for arguments in [Arguments::from_text(text), serde_json::from_str::<Value>(text).unwrap().into()] {
                let response = stack.call_tool(name, arguments).await;
                assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::InvalidArguments), "{name}: {text}");
                assert!(response.as_text().unwrap().contains(found), "{name}: {text}");
            }
        }
    }
    assert!(stack.call_tool("pair", Arguments::from_text(r#" {"a":1,"b":2} "#)).await.is_completed());
}

// I7: what this crate does not know passes.

#[tokio::test(start_paused = true)]
async fn i07_unknown_fields_and_meta_pass_a_proxy_in_both_directions() {
    // Upstream and downstream: a tool that stands for one elsewhere, and is known by what came from there.
    let list = r#"{"tools":[{"name":"t","title":"T","description":"d","inputSchema":{"type":"object","x-order":["b","a"],"new":1.0},"outputSchema":{"type":"object","x":null},"annotations":{"title":"A","readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":false,"newHint":{"z":1.0,"a":9007199254740993}},"icons":[{"src":"data:,","mimeType":"image/png","sizes":["any"],"theme":"dark","purpose":"maskable"}],"execution":{"taskSupport":"optional"},"x":[null,1e400],"_meta":{"com.example/k":{"b":1,"a":2}}}],"nextCursor":"c","ttlMs":1000,"cacheScope":"private","_meta":{"k":1.0}}"#;
    let upstream: ToolList = serde_json::from_str(list).unwrap();
    assert_eq!(serde_json::to_string(&upstream).unwrap(), list);

    let call = r#"{"id":"c","name":"t","arguments":{"z":1,"a":2},"task":{"ttl":60000},"new":[1.0],"_meta":{"progressToken":7,"traceparent":"00-1","com.example/k":null}}"#;
    let result = r#"{"resultType":"complete","content":[{"type":"text","text":"x","annotations":{"audience":["user","assistant"],"priority":0.5,"lastModified":"2026-01-01T00:00:00Z","newHint":[1.0]},"new":1,"_meta":{"a":1}},{"type":"resource_link","uri":"u:","name":"n","title":"t","icons":[{"src":"data:,"}],"_meta":{}},{"type":"resource","resource":{"uri":"u:","text":"t","new":2,"_meta":{"b":1}},"annotations":{"x":1},"new":3},{"type":"unheard_of","_meta":{"c":1}}],"structuredContent":{"z":1,"a":1.0},"isError":true,"new":{"z":1},"_meta":{"io.example/x":[1e400]}}"#
        .replace(r#","_meta":{}}"#, "}");

    let seen = Arc::new(Mutex::new(String::new()));
    let proxied = {
        let (seen, result) = (Arc::clone(&seen), result.clone());
        service_fn(move |call: ToolCall| {
            *seen.lock().unwrap() = serde_json::to_string(&call).unwrap();
            let response = serde_json::from_str::<ToolResponse>(&result).unwrap();
            async move { Ok::<_, BoxError>(response) }
        })
    };
    let router = upstream.tools().iter().fold(Router::new(), |router, spec| {
        router.tool(Tool::from_service((**spec).clone(), proxied.clone()).layer(TimeoutLayer::new(Duration::from_secs(9))))
    });
    let stack = every_layer(Router::new().merge(router.layer(map_result("m", |_| {}))));

    let response = stack.run_call(serde_json::from_str(call).unwrap()).await;
    assert_eq!(*seen.lock().unwrap(), call);
    assert_eq!(json_of(&response), result);
    assert_eq!(response.outcome(), Outcome::ToolError, "the error flag is there too");
    let mut downstream = stack.list_tools().await;
    (downstream.meta, downstream.extra) = (upstream.meta.clone(), upstream.extra.clone());
    assert_eq!(serde_json::to_string(&downstream).unwrap(), list);
}

#[test]
fn i07_an_unsaid_hint_stays_unsaid_and_a_false_one_stays_false() {
    for json in [
        "{}",
        r#"{"readOnlyHint":false}"#,
        r#"{"destructiveHint":false}"#,
        r#"{"idempotentHint":false,"openWorldHint":false}"#,
        r#"{"title":"","readOnlyHint":true}"#,
        r#"{"newHint":false}"#,
    ] {
        let annotations: toolstack::model::ToolAnnotations = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&annotations).unwrap(), json);
        assert_eq!(annotations.is_empty(), json == "{}");
        let spec = format!(r#"{{"name":"t","inputSchema":{{"type":"object"}},"annotations":{json}}}"#);
        let read: ToolSpec = serde_json::from_str(&spec).unwrap();
        assert_eq!(read.annotations, annotations);
        // A hint that only this client does not know changes what the tool is.
        assert_eq!(read.fingerprint() == super::hooks::spec("t").fingerprint(), json == "{}");
    }
}

#[tokio::test(start_paused = true)]
async fn i07_extras_that_a_layer_adds_to_are_added_to_and_not_replaced() {
    let stack = stack!(
        map_call("mark", |call| call.context.meta_mut().insert("mine", &1).unwrap()),
        map_result("mark", |result| result.meta_mut().insert("mine", &2).unwrap()),
        map_list("mark", |list, _| list.meta.insert("mine", &3).unwrap()),
        Router::new().tool(
            Probe::answering(|call| {
                let mut response: ToolResponse = serde_json::from_str(r#"{"content":[],"new":1.0,"_meta":{"theirs":1.0}}"#).unwrap();
                response.result_mut().unwrap().push(Content::text(serde_json::to_string(call.context.meta()).unwrap()));
                response
            })
            .tool("t")
        )
    );
    let call: ToolCall = serde_json::from_str(r#"{"name":"t","_meta":{"theirs":1.0}}"#).unwrap();
    let response = stack.run_call(call).await;
    assert_eq!(response.as_text().as_deref(), Some(r#"{"theirs":1.0,"mine":1}"#));
    assert!(json_of(&response).ends_with(r#""new":1.0,"_meta":{"theirs":1.0,"mine":2}}"#), "{}", json_of(&response));
    assert!(serde_json::to_string(&stack.list_tools().await).unwrap().ends_with(r#""_meta":{"mine":3}}"#));
}

// I10: what the model and the logs read tells no secret.

const SECRET: &str = "hunter2-s3cret";

#[derive(Debug, thiserror::Error)]
#[error("GET https://user:{0}@db.internal/ failed: token={0}")]
struct Upstream(&'static str);

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only to be missed")]
struct Credentials {
    pin: i64,
    kind: Kind,
    #[serde(default)]
    flag: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Card,
    Key,
}

/// Neither what the model reads nor what is written into logs.
fn assert_no_secret(response: &ToolResponse, what: &str) {
    assert!(!json_of(response).contains(SECRET), "{what}: the model reads it: {}", json_of(response));
    assert!(!format!("{response:?}").contains(SECRET), "{what}: a log shows it: {response:?}");
    if let Some(refusal) = response.refusal() {
        assert!(!refusal.message().contains(SECRET) && !refusal.to_string().contains(SECRET), "{what}");
        assert!(!format!("{refusal:#?}").contains(SECRET), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn i10_the_text_of_an_error_from_elsewhere_stays_with_the_operator() {
    fn upstream() -> Result<&'static str, Upstream> {
        Err(Upstream(SECRET))
    }
    let fails = service_fn(|_: ToolCall| async { Err::<ToolResponse, BoxError>(Upstream(SECRET).into()) });
    let stack = stack!(
        gate("denies", |call| if call.name() == "denied" {
            Err(Refusal::new(RefusalKind::Denied, "No.").with_source(Upstream(SECRET)))
        } else {
            Ok(())
        }),
        map_call("panics", |call| assert!(call.name() != "layer_panics", "{SECRET}")),
        calls(FilterLayer::new(|call: ToolCall| if call.name() == "layer_fails" {
            Err(BoxError::from(Upstream(SECRET)))
        } else {
            Ok(call)
        })),
        Router::new()
            .tool(sync_tool_fn("sync", || Ok::<_, ToolError>(upstream()?)))
            .tool(tool_fn("async", || async { Ok::<_, ToolError>(upstream()?) }))
            .tool(blocking_tool_fn("blocking", || Ok::<_, ToolError>(upstream()?)))
            .tool(sync_tool_fn("with_source", || Err::<(), _>(ToolError::new("It failed.").with_source(Upstream(SECRET)))))
            .tool(sync_tool_fn("refusal", || Err::<(), _>(Refusal::internal(Upstream(SECRET)))))
            .tool(Tool::from_service(spec("service"), fails))
            .tool(Tool::from_service(spec("service_with_layer"), fails).layer(TimeoutLayer::new(Duration::from_secs(9))))
            .nest("ns", Router::new().tool(Tool::from_service(spec("service"), fails)).layer(map_result("m", |_| {})))
            .tool(sync_tool_fn("panics", || -> &'static str { panic!("{SECRET}") }))
            .tool(tool_fn("panics_later", || async { assert!(SECRET.is_empty(), "{SECRET}") }))
            .tool(blocking_tool_fn("panics_on_a_thread", || -> &'static str { panic!("{SECRET}") }))
            .tool(Probe::new().tool("denied"))
            .tool(Probe::new().tool("layer_panics"))
            .tool(Probe::new().tool("layer_fails"))
    );
    for spec in stack.list_tools().await.tools() {
        let response = stack.call_tool(spec.name.as_str(), json!({})).await;
        let refusal = response.refusal().unwrap();
        assert_no_secret(&response, &spec.name);
        assert!(!refusal.message().is_empty(), "{}", spec.name);
        // The operator finds it all the same.
        let source = std::error::Error::source(refusal).unwrap_or_else(|| panic!("{} has no source", spec.name));
        assert!(source.to_string().contains(SECRET), "{}: {source}", spec.name);
    }
}

#[tokio::test(start_paused = true)]
async fn i10_a_wrong_argument_is_not_repeated_in_what_is_said_of_it() {
    let stack = stack!(
        Router::new()
            .tool(sync_tool_fn("sync", |_: Credentials| "ran"))
            .tool(tool_fn("async", |_: Credentials| async { "ran" }))
            .tool(blocking_tool_fn("blocking", |_: Credentials| "ran"))
            .nest("ns", Router::new().tool(sync_tool_fn("nested", |_: Credentials| "ran").layer(gate("own", |_| Ok(())))))
    );
    let tricky = format!("a, expected b `c` \"{SECRET}, expected d invalid type: e, expected f");
    for (arguments, says) in [
        (json!({ "pin": SECRET, "kind": "card" }), "expected i64"),
        (json!({ "pin": 1, "kind": SECRET }), "expected `card` or `key`"),
        (json!({ "pin": 1, "kind": tricky }), "expected `card` or `key`"),
        (json!({ "pin": tricky, "kind": "card" }), "expected i64"),
        (json!({ "pin": 1, "kind": "card", "flag": SECRET }), "expected a boolean"),
        (json!({ "pin": 1.5, "kind": "card", "flag": true }), "expected i64"),
        (json!({ "pin": { SECRET: 1 }, "kind": "card" }), "expected i64"),
        (json!({ "kind": "card", "password": SECRET }), "missing field `pin`"),
        (json!([SECRET]), "not an array"),
        (json!(SECRET), "not a string"),
    ] {
        for arguments in [Arguments::from_text(arguments.to_string()), arguments.clone().into()] {
            for name in ["sync", "async", "blocking", "ns.nested"] {
                let response = stack.call_tool(name, arguments.clone()).await;
                let refusal = response.refusal().unwrap();
                assert_eq!(refusal.kind(), RefusalKind::InvalidArguments);
                assert!(refusal.message().contains(says), "{name}: the model is told what is wrong: {}", refusal.message());
                assert_no_secret(&response, name);
            }
        }
    }
    // Broken text: where, and not what.
    for text in
        [format!(r#"{{"pin":{SECRET}}}"#), format!(r#"{{"pin":1,"{SECRET}":"#), format!(r#"{{"pin":"{SECRET}\ud800"}}"#), SECRET.to_owned()]
    {
        let response = stack.call_tool("sync", Arguments::from_text(text)).await;
        assert_eq!(response.refusal().map(Refusal::kind), Some(RefusalKind::InvalidArguments));
        assert_no_secret(&response, "broken text");
    }
    // A number that does not fit is one of the arguments as well.
    let long = "123456789012345678901234567890";
    let error = Arguments::from_text(format!(r#"{{"pin":{long}}}"#)).object().unwrap_err();
    assert!(!error.to_string().contains(long), "{error}");
}

#[tokio::test(start_paused = true)]
async fn i10_a_description_a_list_and_a_fault_show_no_value_of_a_call() {
    let heard = Arc::new(Mutex::new(String::new()));
    let listen = {
        let heard = Arc::clone(&heard);
        after("listen", move |ending| *heard.lock().unwrap() = format!("{ending:?}"))
    };
    let chain = ServiceBuilder::new().layer(listen).service(every_form(|_| ToolResponse::error("no")));
    let mut context = Context::new().with_session(SECRET);
    context.meta_mut().insert("token", SECRET).unwrap();
    let call = ToolCall::new("sync", json!({ "password": SECRET })).with_context(context.clone());
    assert!(!format!("{call:?}").contains(SECRET));
    let response = chain.clone().oneshot(call).await.unwrap();
    assert_no_secret(&response, "a result");
    assert!(!heard.lock().unwrap().contains(SECRET));
    let list = chain.run_list(ListTools::new().with_context(context)).await;
    assert!(!format!("{list:?} {:?} {:?}", chain.describe().await, chain.lint().await).contains(SECRET));
}

#[test]
fn i10_a_field_of_meta_that_is_wrong_is_named_and_not_shown() {
    let meta: RawObject = serde_json::from_str(&json!({ "token": SECRET }).to_string()).unwrap();
    assert_eq!(format!("{meta:?}"), r#"{"token"}"#);
    let result: ToolResult = serde_json::from_str(&format!(r#"{{"content":[],"new":"{SECRET}","_meta":{{"k":"{SECRET}"}}}}"#)).unwrap();
    assert!(!format!("{result:?}").contains(SECRET));
}
