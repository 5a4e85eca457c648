//! J5: what cannot be a hook is refused when the layer is made, for the reason that it is.

use std::time::Duration;

use toolstack::{
    Router, StackExt,
    layer::hooks::{Event, Hook, HookError, HooksLayer},
    select::{Pattern, ToolSelector},
    testing::Probe,
};
use tower::{Layer, ServiceBuilder};

use super::call;

fn error(hook: Hook) -> String {
    HooksLayer::new().try_hook(hook).unwrap_err().to_string()
}

fn noop(name: &'static str) -> Hook {
    Hook::before(name, |_| Ok(()))
}

fn waiting() -> Hook {
    Hook::before_async("w", |_| Box::pin(async { Ok(()) }))
}

#[test]
fn j05_a_hook_that_cannot_be_one_is_refused_for_its_reason() {
    assert_eq!(error(noop("")), "the name of a hook has 1 to 128 bytes; this one has 0");
    assert_eq!(error(Hook::before("x".repeat(129), |_| Ok(()))), "the name of a hook has 1 to 128 bytes; this one has 129");
    assert_eq!(error(waiting().timeout(Duration::ZERO)), "the timeout of the hook `w` is zero; it could never answer");
    assert_eq!(
        error(noop("a").timeout(Duration::from_secs(1))),
        "the hook `a` does not wait, so it cannot have a timeout; make it an async one"
    );
    assert_eq!(
        error(Hook::before_request("r", |_| Ok(())).only(ToolSelector::new().tag("x"))),
        "the hook `r` is about some tools only, and at before_request no tool is known yet; use `before`"
    );
    assert_eq!(error(Hook::on_finish("o", |_| ()).fail_open()), "the hook `o` is an observer; its failure never changes anything");
    assert!(ToolSelector::new().name("git.{").is_err());
    assert!(Pattern::new("").is_err());
}

#[test]
fn j05_one_name_is_one_hook_at_an_event_and_may_be_another_at_another() {
    let two = HooksLayer::new().before("guard", |_| Ok(())).after("guard", |_| Ok(()));
    let error = two.try_hook(noop("guard")).unwrap_err();
    assert!(matches!(&error, HookError::Duplicate { name, event: Event::Before, .. } if name == "guard"));
    assert_eq!(error.to_string(), "there are two hooks `guard` at before_call");
}

#[test]
#[should_panic(expected = "there are two hooks `guard` at before_call")]
fn j05_a_setter_panics_with_the_reason() {
    let _ = HooksLayer::new().before("guard", |_| Ok(())).before("guard", |_| Ok(()));
}

#[test]
fn an_async_hook_may_have_a_timeout_or_none() {
    assert!(HooksLayer::new().try_hook(waiting().timeout(Duration::from_secs(1))).is_ok());
    assert!(HooksLayer::new().try_hook(waiting().timeout(None)).is_ok());
}

#[tokio::test]
async fn a_selector_decides_for_which_tools_a_hook_runs() {
    let trace = super::Trace::default();
    let scoped = |name: &'static str, tools: ToolSelector| {
        let trace = trace.clone();
        Hook::before(name, move |_| {
            trace.say(name);
            Ok(())
        })
        .only(tools)
    };
    let seen = trace.clone();
    let layer = HooksLayer::new()
        .hook(scoped("glob", ToolSelector::new().name("git.*").unwrap()))
        .hook(scoped("tag", ToolSelector::new().tag("vcs")))
        .hook(scoped("writes", ToolSelector::new().read_only(false)))
        .hook(scoped("all", ToolSelector::new()))
        .hook(Hook::on_finish("end", move |_| seen.say("end")).only(ToolSelector::new().tag("vcs")));
    let router = Router::new()
        .tool(Probe::new().tool("git.status").tag("vcs").read_only())
        .tool(Probe::new().tool("git.push"))
        .tool(Probe::new().tool("ping").read_only());
    let stack = layer.layer(router);
    for (name, ran) in [("git.status", "glob tag all end"), ("git.push", "glob writes all"), ("ping", "all"), ("git.x", "glob writes all")]
    {
        stack.run_call(call(name)).await;
        assert_eq!(trace.text(), ran, "{name}");
    }
}

#[tokio::test]
async fn more_scoped_hooks_than_bits_in_a_word_keep_their_scopes() {
    let trace = super::Trace::default();
    let layer = (0..200).fold(HooksLayer::new(), |layer, n| {
        let trace = trace.clone();
        let hook = Hook::on_finish(format!("h{n}"), move |_| trace.say(n.to_string()));
        layer.hook(if n % 70 == 3 {
            hook.only(ToolSelector::new().name("t").unwrap())
        } else {
            hook.only(ToolSelector::new().name("u").unwrap())
        })
    });
    layer.layer(Router::new().tool(Probe::new().tool("t"))).run_call(call("t")).await;
    assert_eq!(trace.text(), "3 73 143");
}

#[tokio::test]
async fn describe_shows_the_hooks_of_each_event_and_lint_their_order() {
    let hooks = || {
        HooksLayer::new()
            .before("b", |_| Ok(()))
            .hook(Hook::before("a", |_| Ok(())).fail_open())
            .after_list("plan", |_| Ok(()))
            .on_finish("audit", |_| ())
    };
    let judge = || toolstack::layer::gate("judge", |_| Ok(()));
    let stack = ServiceBuilder::new().layer(hooks()).layer(judge()).service(Router::new());
    assert_eq!(
        stack.describe().await.layers()[0].to_string(),
        "hooks (after_list: plan, before_call: b a, on_finish: audit, fail_open: a)"
    );
    assert_eq!(stack.lint().await, []);
}
