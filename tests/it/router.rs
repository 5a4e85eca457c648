//! The router: names, nesting, what is refused at set-up and where, and tools that come and go.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, Location, catch_unwind},
    sync::{
        Arc, Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use serde_json::json;
use toolstack::{
    ListTools, Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::{gate, gate_async, gate_tool, map_call, map_list},
    model::{NameError, ToolName, ToolSpec},
    router::RouterError,
    testing::{Controlled, Probe, Recorder},
    tool::{Tool, sync_tool_fn, tool_fn},
};
use tower::{BoxError, ServiceBuilder, layer::layer_fn, limit::ConcurrencyLimitLayer, service_fn};

fn tool(name: &str) -> Tool<impl toolstack::tool::Handler + use<>> {
    let answer = name.to_owned();
    tool_fn(name, move || std::future::ready(answer.clone()))
}

fn router(names: &[&str]) -> Router {
    names.iter().fold(Router::new(), |router, name| router.tool(tool(name)))
}

fn kind(response: &ToolResponse) -> Option<RefusalKind> {
    response.refusal().map(Refusal::kind)
}

async fn text(router: &Router, name: &str) -> String {
    router.call_tool(name, ()).await.as_text().unwrap_or_default().into_owned()
}

async fn names(router: &Router) -> Vec<String> {
    router.list_tools().await.names().map(str::to_owned).collect()
}

/// Where `panics` panics, and what it says. The hook that tells is put in once, and passes everything on.
fn panics_at(panics: impl FnOnce()) -> (String, u32, String) {
    thread_local!(static LAST: RefCell<Option<(String, u32)>> = const { RefCell::new(None) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let at = info.location().map(|at: &Location<'_>| (at.file().to_owned(), at.line()));
            LAST.with(|last| *last.borrow_mut() = at);
            before(info);
        }));
    });
    let panic = catch_unwind(AssertUnwindSafe(panics)).expect_err("it did not panic");
    let (file, line) = LAST.with(RefCell::take).expect("the hook has run");
    let message = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    (file, line, message.unwrap_or_default())
}

#[test]
fn what_is_wrong_at_set_up_panics_where_the_caller_stands() {
    macro_rules! panics {
        ($($expr:expr => $message:literal;)*) => {$({
            let line = line!();
            let (file, at, message) = panics_at(|| drop($expr));
            assert_eq!(file, file!());
            assert!(message.contains($message), "{message}");
            // The expression stands within this macro's call, which is one line or some lines after it.
            assert!(at >= line && at < line + 40, "{at} is not about {line}");
        })*};
    }

    panics! {
        router(&["a"]).tool(tool("a")) => "there is a tool `a` already";
        router(&["a", "b"]).merge(router(&["b"])) => "there is a tool `b` already";
        router(&["git.status"]).nest("git", router(&["status"])) => "there is a tool `git.status` already";
        Router::new().nest("no prefix", Router::new()) => "holds ' ' at byte 2";
        { let a = router(&["a"]); a.clone().merge(a) } => "a router cannot be nested within itself";
        sync_tool_fn("", || "") => "a tool name is empty";
        Controlled::new().tool("") => "a tool name is empty";
        Probe::new().tool("a b") => "holds ' ' at byte 1";
        sync_tool_fn("a", || "").input_schema(&json!(true)) => "a schema is a JSON object";
    }

    // To the line.
    let line = line!() + 1;
    let (_, at, _) = panics_at(|| drop(router(&["a"]).tool(tool("a"))));
    assert_eq!(at, line);
}

#[test]
fn each_that_panics_has_a_twin_that_does_not() {
    let name = |name: &str| ToolName::new(name).unwrap();
    assert_eq!(router(&["a"]).try_tool(tool("a")).unwrap_err(), RouterError::Duplicate(name("a")));
    assert_eq!(router(&["a"]).try_merge(router(&["b", "a"])).unwrap_err(), RouterError::Duplicate(name("a")));
    assert_eq!(router(&["x.a"]).try_nest("x", router(&["a"])).unwrap_err(), RouterError::Duplicate(name("x.a")));

    let long = "p".repeat(127);
    match router(&[]).try_nest(&long, router(&["a"])).unwrap_err() {
        RouterError::Name { prefix, error: NameError::TooLong { length, .. }, .. } => assert_eq!((prefix, length), (long, 129)),
        error => panic!("{error}"),
    }
    match router(&[]).try_nest("", router(&["a"])).unwrap_err() {
        RouterError::Name { error, .. } => assert_eq!(error, NameError::Empty),
        error => panic!("{error}"),
    }
    assert!(matches!("a b".parse::<ToolName>(), Err(NameError::Character { .. })));
    assert!(router(&["a"]).try_tool(tool("b")).is_ok());
    assert!(router(&["a"]).try_merge(router(&["b"])).is_ok());
    assert!(router(&["a"]).try_nest("x", router(&["a"])).is_ok());
}

#[tokio::test]
async fn what_was_refused_changes_nothing() {
    let outer = router(&["a"]);
    assert!(outer.clone().try_merge(router(&["b", "a"])).is_err());
    assert!(outer.clone().try_nest("a b", router(&["c"])).is_err());
    assert_eq!(names(&outer).await, ["a"]);
    assert_eq!(kind(&outer.call_tool("b", ()).await), Some(RefusalKind::UnknownTool));
}

#[test]
fn a_router_is_never_within_itself() {
    let a = router(&["a"]);
    assert_eq!(a.clone().try_merge(a.clone()).unwrap_err(), RouterError::Within);
    assert_eq!(a.clone().try_nest("x", a.clone()).unwrap_err(), RouterError::Within);
    let b = router(&["b"]).nest("in", a.clone());
    let c = router(&["c"]).merge(b.clone());
    assert_eq!(a.clone().try_nest("x", c.clone()).unwrap_err(), RouterError::Within);
    assert_eq!(a.clone().try_nest("x", c.layer(map_call("m", |_| {}))).unwrap_err(), RouterError::Within);
    assert!(router(&[]).try_nest("x", b).is_ok());
    drop(a);
}

#[tokio::test]
async fn tools_are_found_by_their_names_and_nothing_else_is() {
    let router = router(&["a", "A", "a.b", "a-b", "a_b"]);
    for name in ["a", "A", "a.b", "a-b", "a_b"] {
        assert_eq!(text(&router, name).await, name);
    }
    for name in ["b", "", "a ", "a.", ".a", "a.b.c", "ä"] {
        let answer = router.call_tool(name, ()).await;
        let refusal = answer.refusal().unwrap();
        assert_eq!(
            (refusal.kind(), refusal.by(), refusal.message()),
            (RefusalKind::UnknownTool, "router", &*format!("Unknown tool: {name}"))
        );
    }
}

#[tokio::test]
async fn nested_names_are_those_of_their_place() {
    let probe = Probe::answering(|call| ToolResponse::text(call.name().as_str()));
    let inner = Router::new().tool(probe.tool("status"));
    let outer = router(&["git"]).nest("git", inner).nest("deep", Router::new().nest("er", router(&["a"]))).merge(router(&["merged"]));
    assert_eq!(names(&outer).await, ["deep.er.a", "git", "git.status", "merged"]);
    assert_eq!(text(&outer, "git.status").await, "status", "a tool sees the name it was given");
    assert_eq!(text(&outer, "deep.er.a").await, "a");
    for unknown in ["status", "git.", "git.push", "deep.a", "er.a", "deep.er", "deep.er.b"] {
        assert_eq!(text(&outer, unknown).await, format!("Unknown tool: {unknown}"));
    }
    let list = outer.list_tools().await;
    assert_eq!(list.get("git.status").unwrap().name, "git.status");
}

#[tokio::test]
async fn a_layer_around_a_router_is_one_layer_and_around_what_is_there() {
    let built = Arc::new(AtomicUsize::new(0));
    let seen = Recorder::new();
    let count = layer_fn({
        let built = Arc::clone(&built);
        move |inner: Router| {
            built.fetch_add(1, Ordering::SeqCst);
            inner
        }
    });
    let router = router(&["a", "b"]).layer(count).layer(seen.layer("layer")).tool(tool("later"));
    for name in ["a", "b", "later", "none"] {
        router.call_tool(name, ()).await;
    }
    assert_eq!(built.load(Ordering::SeqCst), 1);
    assert_eq!(seen.trace(), "layer> layer< layer> layer< layer> layer<", "`a`, `b` and the name that nobody has");
    assert_eq!(names(&router).await, ["a", "b", "later"]);
}

#[tokio::test]
async fn a_limit_around_a_router_is_one_limit_for_its_tools() {
    let controlled = Controlled::new();
    let inner = Router::new().tool(controlled.tool("a")).tool(controlled.tool("b"));
    let router = Router::new().nest("x", inner.layer(ConcurrencyLimitLayer::new(1)));
    let calls: Vec<_> = (0..20).map(|n| tokio::spawn(router.call_tool(if n % 2 == 0 { "x.a" } else { "x.b" }, ()))).collect();
    for _ in 0..20 {
        controlled.next().await.respond(ToolResponse::text("done"));
    }
    for call in calls {
        assert!(call.await.unwrap().is_completed());
    }
    assert_eq!(controlled.peak(), 1);
}

#[tokio::test]
async fn layers_of_a_nested_router_stand_within_those_of_the_outer_and_see_its_own_names() {
    let recorder = Recorder::new();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let look = |place: &'static str| {
        let seen = Arc::clone(&seen);
        map_call("look", move |call| seen.lock().unwrap().push(format!("{place}: {}", call.name())))
    };
    let inner = router(&["a"]).layer(look("inner")).layer(recorder.layer("inner"));
    let outer = Router::new().nest("x", inner).layer(look("outer")).layer(recorder.layer("outer"));
    assert_eq!(text(&outer, "x.a").await, "a");
    assert_eq!(recorder.trace(), "outer> inner> inner< outer<");
    assert_eq!(*seen.lock().unwrap(), ["outer: x.a", "inner: a"]);
}

#[tokio::test]
async fn a_fallback_answers_what_no_tool_does() {
    let echo = |place: &'static str| {
        service_fn(move |call: ToolCall| async move { Ok::<_, BoxError>(ToolResponse::text(format!("{place}: {}", call.name()))) })
    };
    let inner = router(&["a"]).fallback(echo("inner"));
    let outer = router(&["b"]).nest("x", inner).fallback(echo("outer"));
    assert_eq!(text(&outer, "b").await, "b");
    assert_eq!(text(&outer, "x.a").await, "a");
    assert_eq!(text(&outer, "x.none").await, "inner: none", "names that begin so are the nested router's");
    assert_eq!(text(&outer, "none").await, "outer: none");
    assert_eq!(names(&outer).await, ["b", "x.a"]);

    // Without one of its own, the nested router says that there is none, by the name outside.
    let outer = Router::new().nest("x", router(&["a"])).fallback(echo("outer"));
    assert_eq!(text(&outer, "x.none").await, "Unknown tool: x.none");

    let failing = Router::new().fallback(service_fn(|_: ToolCall| async { Err::<ToolResponse, BoxError>("secret".into()) }));
    let answer = failing.call_tool("any", ()).await;
    assert_eq!(kind(&answer), Some(RefusalKind::Internal));
    assert!(!answer.as_text().unwrap().contains("secret"));
}

#[tokio::test]
async fn tools_come_and_go_while_calls_run() {
    let controlled = Controlled::new();
    let router = Router::new().tool(controlled.tool("wait"));
    let handle = router.handle();
    let running = tokio::spawn(router.call_tool("wait", ()));
    let held = controlled.next().await;

    assert!(handle.remove("wait"));
    assert!(!handle.remove("wait"));
    assert_eq!(kind(&router.call_tool("wait", ()).await), Some(RefusalKind::UnknownTool));
    handle.insert(tool("wait")).unwrap();
    assert_eq!(handle.insert(tool("wait")).unwrap_err(), RouterError::Duplicate("wait".parse().unwrap()));
    assert_eq!(text(&router, "wait").await, "wait");
    handle.replace(sync_tool_fn("wait", || "replaced")).unwrap();
    handle.replace(sync_tool_fn("new", || "new")).unwrap();
    assert_eq!(text(&router, "wait").await, "replaced");
    assert_eq!(names(&router).await, ["new", "wait"]);
    assert_eq!(handle.catalog().list().names().collect::<Vec<_>>(), ["new", "wait"]);

    held.respond(ToolResponse::text("undisturbed"));
    assert_eq!(running.await.unwrap().as_text().as_deref(), Some("undisturbed"));
}

#[tokio::test]
async fn a_change_within_shows_everywhere_outside() {
    let inner = router(&["a"]);
    let handle = inner.handle();
    let layered = Router::new().nest("y", inner).layer(map_list("m", |_, _| {}));
    let outer = Router::new().nest("x", layered);
    let clone = outer.clone();
    handle.insert(tool("b")).unwrap();
    assert!(handle.remove("a"));
    for router in [&outer, &clone] {
        assert_eq!(names(router).await, ["x.y.b"]);
        assert_eq!(text(router, "x.y.b").await, "b");
        assert_eq!(kind(&router.call_tool("x.y.a", ()).await), Some(RefusalKind::UnknownTool));
    }
}

#[tokio::test]
async fn who_had_a_name_first_keeps_it_when_a_later_one_appears_within() {
    let inner = router(&[]);
    let handle = inner.handle();
    let outer = Router::new().nest("x", inner).tool(sync_tool_fn("x.a", || "outer"));
    handle.insert(sync_tool_fn("a", || "inner")).unwrap();
    assert_eq!(text(&outer, "x.a").await, "outer");
    assert_eq!(names(&outer).await, ["x.a"]);
    assert_eq!(outer.handle().insert(tool("x.a")).unwrap_err(), RouterError::Duplicate("x.a".parse().unwrap()));
    assert!(outer.handle().remove("x.a"));
    assert_eq!(text(&outer, "x.a").await, "inner");
    assert!(!outer.handle().remove("x.a"), "it is not the outer router's own");
    assert!(outer.handle().insert(tool("x.a")).is_err());
}

#[tokio::test]
async fn a_tool_that_appears_within_takes_no_name_from_an_older_one_of_another_router() {
    let pay = |whose: &'static str| sync_tool_fn("pay", move || whose);
    let layer = |router: Router, layered| if layered { router.layer(map_call("m", |_| {})) } else { router };
    for layered in [false, true] {
        let (ra, rb) = (router(&[]), Router::new().tool(pay("b's")));
        let outer = Router::new().merge(layer(ra.clone(), layered)).merge(layer(rb.clone(), layered));
        ra.handle().insert(pay("a's")).unwrap();
        assert_eq!(text(&outer, "pay").await, "b's", "layered: {layered}");
        // In the place of the older one, a tool is as old.
        rb.handle().replace(pay("b's new")).unwrap();
        ra.handle().replace(pay("a's new")).unwrap();
        assert_eq!(text(&outer, "pay").await, "b's new", "layered: {layered}");
        assert_eq!(names(&outer).await, ["pay"]);
        assert!(rb.handle().remove("pay"));
        assert_eq!(text(&outer, "pay").await, "a's new", "layered: {layered}");
        rb.handle().insert(pay("b's again")).unwrap();
        assert_eq!(text(&outer, "pay").await, "a's new", "layered: {layered}");

        let (ra, rb) = (router(&[]), Router::new().tool(sync_tool_fn("y", || "b's")));
        let outer = Router::new().nest("a", layer(ra.clone(), layered)).nest("a.b", layer(rb, layered));
        ra.handle().insert(sync_tool_fn("b.y", || "a's")).unwrap();
        assert_eq!(text(&outer, "a.b.y").await, "b's", "layered: {layered}");
        assert_eq!(names(&outer).await, ["a.b.y"]);
    }

    // A router that is added within brings no age of its own to where it is added.
    let old = Router::new().tool(pay("old"));
    let (ra, rb) = (router(&[]), Router::new().tool(pay("b's")));
    let outer = Router::new().merge(ra.clone()).merge(rb);
    drop(ra.merge(old));
    assert_eq!(text(&outer, "pay").await, "b's");
}

#[tokio::test]
async fn no_tool_is_put_outside_the_layers_of_the_one_that_it_would_replace() {
    let deny = gate("deny", |_| Err(Refusal::new(RefusalKind::Denied, "no").with_by("deny")));
    let inner = router(&["rm"]);
    let layered = inner.clone().layer(deny);
    let taken = Err(RouterError::Duplicate("rm".parse().unwrap()));
    assert_eq!(layered.handle().insert(tool("rm")), taken);
    assert_eq!(layered.handle().replace(tool("rm")), taken);
    assert_eq!(Router::new().merge(layered.clone()).handle().replace(tool("rm")), taken);
    assert_eq!(inner.handle().replace(sync_tool_fn("rm", || "new")), Ok(()));
    assert_eq!(kind(&layered.call_tool("rm", ()).await), Some(RefusalKind::Denied));

    // One of its own it may replace, also where one within came to have the name.
    let outer = router(&["x.a"]).nest("x", layered);
    inner.handle().insert(tool("a")).unwrap();
    assert_eq!(outer.handle().replace(sync_tool_fn("x.a", || "new")), Ok(()));
    assert_eq!(text(&outer, "x.a").await, "new");
}

#[tokio::test]
async fn what_a_nested_router_refuses_shows_outside() {
    /// Fails whatever is asked of it.
    #[derive(Clone)]
    struct Broken;
    impl<R: toolstack::operation::Operation> tower::Service<R> for Broken {
        type Response = R::Response;
        type Error = BoxError;
        type Future = std::future::Ready<Result<R::Response, BoxError>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
            std::task::Poll::Ready(Err(Refusal::new(RefusalKind::Overloaded, "Away.").with_by("broken").into()))
        }

        fn call(&mut self, _: R) -> Self::Future {
            unreachable!("it is never ready")
        }
    }

    let away = |refusal: Option<&Refusal>| refusal.map(|refusal| (refusal.kind(), refusal.message().to_owned(), refusal.by().to_owned()));
    let expected = Some((RefusalKind::Overloaded, "Away.".to_owned(), "broken".to_owned()));
    let inner = router(&["a"]).layer(layer_fn(|_: Router| Broken));
    let outer = Router::new().nest("deep", router(&["c"]).nest("x", inner)).merge(router(&["b"]));
    let list = outer.list_tools().await;
    assert_eq!((away(list.refusal()), list.tools().len()), (expected.clone(), 0));

    let description = outer.describe().await;
    assert_eq!(away(description.refusal()), expected);
    assert_eq!(description.tools().iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["b", "deep.c"]);
    let shown = description.to_string();
    assert!(shown.starts_with("not the whole description: Away.") && shown.contains("deep.c"), "{shown}");
    let faults: Vec<_> = outer.lint().await.into_iter().map(|fault| (fault.rule, fault.layers)).collect();
    assert_eq!(faults, [("no-description", vec!["broken (Away.)".to_owned()])]);
}

#[tokio::test]
async fn a_change_is_told_once_however_many_there_were() {
    let inner = router(&["a"]);
    let handle = inner.handle();
    let outer = Router::new().nest("x", inner);
    let (mut within, mut outside) = (handle.catalog().changes(), outer.catalog().changes());
    for changes in [&mut within, &mut outside] {
        assert!(changes.changed().now_or_never().is_none());
    }
    handle.insert(tool("b")).unwrap();
    handle.insert(tool("c")).unwrap();
    let _ = handle.remove("none");
    for changes in [&mut within, &mut outside] {
        // A wait that is dropped loses nothing.
        drop(changes.changed());
        assert_eq!(changes.changed().now_or_never(), Some(true));
        assert!(changes.changed().now_or_never().is_none());
    }
    let _ = handle.remove("none");
    assert!(within.changed().now_or_never().is_none(), "nothing changed");

    outer.handle().insert(tool("outer")).unwrap();
    assert!(within.changed().now_or_never().is_none(), "a change outside is none within");
    assert_eq!(outside.changed().now_or_never(), Some(true));

    let waiting = tokio::spawn(async move { within.changed().await });
    tokio::task::yield_now().await;
    handle.replace(tool("b")).unwrap();
    assert!(waiting.await.unwrap());
    drop((handle, outer));
    assert!(outside.changed().await, "what came before the end is told");
    assert!(!outside.changed().await, "there can be none any more");
}

#[tokio::test]
async fn a_list_is_in_the_order_of_names_and_the_same_one_until_something_changes() {
    let mut shuffled: Vec<String> = (0..100).map(|n| format!("t{:02}", (n * 37) % 100)).collect();
    let router = router(&shuffled.iter().map(String::as_str).collect::<Vec<_>>());
    shuffled.sort();
    assert_eq!(names(&router).await, shuffled);

    let (one, two) = (router.list_tools().await, router.clone().list_tools().await);
    assert!(std::ptr::eq(one.tools(), two.tools()));
    router.handle().insert(tool("another")).unwrap();
    let three = router.list_tools().await;
    assert!(!std::ptr::eq(one.tools(), three.tools()));
    assert_eq!(three.names().next(), Some("another"));
    assert!(Arc::ptr_eq(one.get("t00").unwrap(), three.get("t00").unwrap()), "the specs are shared");

    let layered = Router::new().nest("z", router).nest("a", self::router(&["b"])).layer(map_list("m", |_, _| {})).tool(tool("m"));
    let listed = names(&layered).await;
    assert_eq!((listed.len(), listed.is_sorted()), (103, true));
    assert_eq!(listed, names(&layered).await);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_replaced_while_a_gate_waits_is_not_run() {
    for (change, expected) in
        [("replace", RefusalKind::Denied), ("remove and insert", RefusalKind::Denied), ("remove", RefusalKind::UnknownTool)]
    {
        let (before, after) = (Probe::new(), Probe::new());
        let router = Router::new().tool(before.tool("write"));
        let handle = router.handle();
        let stack = ServiceBuilder::new()
            .layer(gate_tool("judge", |_, _| Ok(())))
            .layer(gate_async("ask", async |_| {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Ok(())
            }))
            .service(Router::new().nest("x", router));
        let call = tokio::spawn(stack.call_tool("x.write", ()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        match change {
            "replace" => handle.replace(after.tool("write")).unwrap(),
            "remove" => assert!(handle.remove("write")),
            _ => {
                assert!(handle.remove("write"));
                handle.insert(after.tool("write")).unwrap();
            }
        }
        let answer = call.await.unwrap();
        assert_eq!(answer.refusal().map(|refusal| (refusal.kind(), refusal.by())), Some((expected, "router")), "{change}");
        assert_eq!((before.runs(), after.runs()), (0, 0), "{change}");
        // Asked anew, the new one is judged and runs.
        assert_eq!(kind(&stack.call_tool("x.write", ()).await), (change == "remove").then_some(RefusalKind::UnknownTool));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_nobody_judged_may_change_while_a_gate_waits() {
    let after = Probe::new();
    let router = router(&["write"]);
    let handle = router.handle();
    let ask = gate_async("ask", async |_| {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok(())
    });
    let stack = ServiceBuilder::new().layer(ask).service(router);
    let call = tokio::spawn(stack.call_tool("write", ()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    handle.replace(after.tool("write")).unwrap();
    assert!(call.await.unwrap().is_completed());
    assert_eq!(after.runs(), 1);
}

#[tokio::test]
async fn a_tool_that_panics_is_answered_for_wherever_it_does() {
    struct Odd;
    impl toolstack::tool::Handler for Odd {
        fn call(&self, call: ToolCall) -> toolstack::tool::ToolFuture {
            assert!(call.arguments.as_json().unwrap() != "{}", "at once");
            toolstack::tool::ToolFuture::new(async { panic!("later") })
        }
    }
    let odd = || Tool::new(ToolSpec::new("odd".parse().unwrap()), Odd);
    let router = Router::new().tool(odd()).nest("x", Router::new().tool(odd())).tool(tool("even"));
    for name in ["odd", "x.odd"] {
        for arguments in [json!({}), json!({ "later": true })] {
            let answer = router.call_tool(name, arguments).await;
            let refusal = answer.refusal().unwrap();
            assert_eq!((refusal.kind(), refusal.by()), (RefusalKind::Internal, "router"));
            assert!(!answer.as_text().unwrap().contains("later"));
        }
    }
    assert_eq!(text(&router, "even").await, "even");
}

#[tokio::test]
async fn a_dropped_call_drops_the_tool_through_all_routers() {
    let controlled = Controlled::new();
    let inner = Router::new().tool(controlled.tool("wait")).layer(gate("g", |_| Ok(())));
    let router = Router::new().nest("x", Router::new().nest("y", inner));
    let call = tokio::spawn(router.call_tool("x.y.wait", ()));
    let _held = controlled.next().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!((controlled.in_flight(), controlled.dropped()), (0, 1));
}

#[tokio::test]
async fn what_layers_of_a_nested_router_hide_is_asked_for_each_list_anew() {
    let inner = router(&["a", "b"])
        .layer(toolstack::layer::VisibilityLayer::new(|tool, context| tool.name != "b" || context.principal().subject == "ada"));
    let outer = Router::new().nest("x", inner);
    let ada = toolstack::model::Context::new().with_principal(toolstack::model::Principal::new("ada"));
    assert_eq!(names(&outer).await, ["x.a"]);
    assert_eq!(outer.run_list(ListTools::new().with_context(ada)).await.names().collect::<Vec<_>>(), ["x.a", "x.b"]);
    assert_eq!(names(&outer).await, ["x.a"]);
    assert_eq!(outer.catalog().list().names().collect::<Vec<_>>(), ["x.a", "x.b"], "a catalog is for whoever sets up");
}

#[test]
fn debug_shows_names_and_no_more() {
    assert_eq!(format!("{:?}", router(&["b", "a"])), r#"Router { tools: ToolList { tools: ["a", "b"] } }"#);
}
