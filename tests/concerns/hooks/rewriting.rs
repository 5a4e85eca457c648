use proptest::prelude::*;
use serde_json::json;
use toolstack::{
    Refusal, RefusalKind, Router, StackExt, ToolCall, ToolResponse,
    layer::{
        gate,
        hooks::{Halt, Hook, HooksLayer},
    },
    model::{Arguments, Context, InputRequired, Outcome, Remark, Resume, TaskHandle},
    testing::Probe,
};
use tower::{Layer, ServiceBuilder};

use super::call;

/// Appends a letter to the argument `s`.
fn append(at: usize, letter: char, waits: bool) -> Hook {
    let rewritten = move |arguments: &Arguments| {
        let mut object = arguments.object().cloned().unwrap_or_default();
        let text = object.get("s").and_then(|s| s.as_str()).unwrap_or_default();
        object.insert("s".into(), format!("{text}{letter}").into());
        object
    };
    let name = format!("append {at}");
    if waits {
        Hook::before_async(name, move |call| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                call.set_arguments(rewritten(call.arguments()));
                Ok(())
            })
        })
    } else {
        Hook::before(name, move |call| {
            call.set_arguments(rewritten(call.arguments()));
            Ok(())
        })
    }
}

proptest! {
    #[test]
    fn d01_the_tool_gets_what_every_rewriter_wrote(letters in prop::collection::vec((prop::char::range('a', 'e'), any::<bool>(), any::<bool>()), 0..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mut outer, mut inner) = (HooksLayer::new(), HooksLayer::new());
            let (mut first, mut second) = (String::new(), String::new());
            for (at, (letter, waits, outside)) in letters.into_iter().enumerate() {
                let (layer, text) = if outside { (&mut outer, &mut first) } else { (&mut inner, &mut second) };
                *layer = std::mem::take(layer).hook(append(at, letter, waits));
                text.push(letter);
            }
            let probe = Probe::new();
            let stack = ServiceBuilder::new().layer(outer).layer(inner).service(Router::new().tool(probe.tool("t")));
            stack.run_call(ToolCall::new("t", json!({ "s": "", "kept": 9_007_199_254_740_993_u64 }))).await;
            let arrived = &probe.calls()[0].arguments;
            assert_eq!(arrived.object().unwrap()["s"], format!("{first}{second}"));
            assert_eq!(arrived.object().unwrap()["kept"], 9_007_199_254_740_993_u64);
        });
    }
}

#[tokio::test]
async fn a_later_hook_and_what_stands_within_see_what_a_hook_wrote() {
    let probe = Probe::new();
    let seen = super::Trace::default();
    let [hook, within, observer] = std::array::from_fn(|_| seen.clone());
    let layer = HooksLayer::new()
        .before("write", |call| {
            call.set_arguments(Arguments::from_text(r#"{"n":2.50}"#));
            Ok(())
        })
        .before("read", move |call| {
            hook.say(call.arguments().as_json()?);
            Ok(())
        })
        .on_finish("heard", move |end| observer.say(end.call().arguments.as_json().unwrap()));
    let gate = gate("within", move |call| {
        within.say(call.arguments.as_json().unwrap());
        Ok(())
    });
    let stack = ServiceBuilder::new().layer(layer).layer(gate).service(Router::new().tool(probe.tool("t")));
    stack.run_call(call("t")).await;
    assert_eq!(probe.arguments(), [r#"{"n":2.50}"#]);
    assert_eq!(seen.take(), [r#"{"n":2.50}"#; 3]);
}

/// D4: what stands within judges what a repairing hook made, and a call that needs no repair arrives bit for bit.
#[tokio::test]
async fn d04_a_hook_repairs_arguments_before_what_validates_them() {
    let repair = HooksLayer::new().before("repair", |call| {
        let Ok(object) = call.arguments().object() else { return Ok(()) };
        if let Some(text) = object.get("filter").and_then(|filter| filter.as_str()).filter(|text| text.starts_with('{')) {
            let mut object = object.clone();
            object.insert("filter".into(), serde_json::from_str(text)?);
            call.set_arguments(object);
            call.remark("`filter` was a text of JSON; it was taken for the object.");
        }
        Ok(())
    });
    let validate = gate("validate", |call| {
        let valid = call.arguments.object().is_ok_and(|object| object.get("filter").is_some_and(|filter| filter.is_object()));
        if valid { Ok(()) } else { Err(Refusal::new(RefusalKind::InvalidArguments, "`filter` must be an object.").with_by("validate")) }
    });
    let probe = Probe::new();
    let stack = ServiceBuilder::new().layer(repair).layer(validate).service(Router::new().tool(probe.tool("t")));

    let response = stack.run_call(ToolCall::new("t", json!({ "filter": "{\"a\":1}" }))).await;
    assert!(response.is_completed());
    assert_eq!(response.remarks()[0].by, "repair");
    let response = stack.run_call(ToolCall::new("t", Arguments::from_text(r#"{"filter" : {"a":1.0}}"#))).await;
    assert!(response.is_completed() && response.remarks().is_empty());
    assert_eq!(probe.arguments(), [r#"{"filter":{"a":1}}"#, r#"{"filter" : {"a":1.0}}"#]);
    assert_eq!(stack.run_call(ToolCall::new("t", json!({ "filter": 7 }))).await.outcome().as_str(), "invalid_arguments");
    // What cannot be repaired fails the hook, and is not let through.
    assert_eq!(stack.run_call(ToolCall::new("t", json!({ "filter": "{" }))).await.outcome().as_str(), "internal");
}

#[tokio::test]
async fn values_reach_later_hooks_and_the_tool_and_no_retry() {
    #[derive(Clone, Debug, PartialEq)]
    struct Tenant(u32);

    let found = super::Trace::default();
    let [before, tool] = std::array::from_fn(|_| found.clone());
    let layer = HooksLayer::new()
        .before_request("tenant", |request| {
            if request.context().resume().is_none() {
                request.extensions_mut().insert(Tenant(7));
            }
            Ok(())
        })
        .before("use", move |call| {
            before.say(format!("{:?}", call.call().context.extensions().get::<Tenant>()));
            call.extensions_mut().insert("handed");
            Ok(())
        });
    let probe = Probe::answering(move |call| {
        let extensions = call.context.extensions();
        tool.say(format!("{:?} {:?}", extensions.get::<Tenant>(), extensions.get::<&str>()));
        match call.context.resume() {
            None => ToolResponse::InputRequired(Box::new(InputRequired::new("state"))),
            Some(_) => ToolResponse::text("done"),
        }
    });
    let stack = layer.layer(Router::new().tool(probe.tool("t")));
    let context = Context::new().with_session("s");
    let first = call("t").with_context(context.clone());
    assert_eq!(stack.run_call(first.clone()).await.outcome(), Outcome::InputRequired);
    let resume = Resume::new(Some("state".into()), toolstack::model::RawObject::new());
    let again = ToolCall::new("t", first.arguments.clone()).with_context(first.context.clone().with_resume(resume));
    assert!(stack.run_call(again).await.is_completed());
    assert_eq!(
        found.take(),
        [
            r#"Some(Tenant(7))"#,
            r#"Some(Tenant(7)) Some("handed")"#,
            // The hooks ran again, and found nothing of the first time.
            "None",
            r#"None Some("handed")"#,
        ]
    );
}

#[tokio::test]
async fn a_result_is_rewritten_and_its_refusals_are_results_too() {
    let layer = HooksLayer::new()
        .after("mask", |call| {
            if let Some(text) = call.result().as_text().map(|text| text.replace("123", "***")) {
                call.result_mut().set_content([toolstack::model::Content::text(text)]);
            }
            Ok(())
        })
        .after_async("sign", |call| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                call.result_mut().push("--");
                Ok(())
            })
        });
    let answers: [(&str, fn() -> ToolResponse); 3] = [
        ("text", || ToolResponse::text("key 123")),
        ("error", || ToolResponse::error("key 123")),
        ("refused", || Refusal::new(RefusalKind::Denied, "key 123").into()),
    ];
    for (name, answer) in answers {
        let stack = layer.clone().layer(Router::new().tool(Probe::answering(move |_| answer()).tool("t")));
        let response = stack.run_call(call("t")).await;
        assert_eq!(response.as_text().as_deref(), Some("key ***\n--"), "{name}");
        assert_eq!(response.outcome(), answer().outcome());
    }
}

/// D8: what a hook remarks stands on the response, whatever the response is.
#[tokio::test]
async fn d08_remarks_survive_every_outcome() {
    let remarking = |waits: bool| {
        let layer = HooksLayer::new().before_request("first", |request| {
            request.remark("one");
            Ok(())
        });
        let layer = if waits {
            layer.before_async("second", |call| {
                Box::pin(async move {
                    tokio::task::yield_now().await;
                    call.remark("two");
                    Ok(())
                })
            })
        } else {
            layer.before("second", |call| {
                call.remark("two");
                Ok(())
            })
        };
        layer.before("decide", |call| {
            match call.call().name().as_str() {
                "halted" => return Err(Halt::forbidden()),
                "failing" => return Err(Halt::failed("broken")),
                "answered" => call.answer(ToolResponse::text("here")),
                _ => {}
            }
            Ok(())
        })
    };
    let answers: [(&str, fn() -> ToolResponse); 8] = [
        ("text", || ToolResponse::text("x")),
        ("error", || ToolResponse::error("x")),
        ("refused", || Refusal::new(RefusalKind::Denied, "x").into()),
        ("asks", || ToolResponse::InputRequired(Box::new(InputRequired::new("s")))),
        ("task", || ToolResponse::Task(Box::new(TaskHandle::new("t")))),
        ("halted", || ToolResponse::text("never")),
        ("failing", || ToolResponse::text("never")),
        ("answered", || ToolResponse::text("never")),
    ];
    for waits in [false, true] {
        for (name, answer) in answers {
            let stack = remarking(waits).layer(Router::new().tool(Probe::answering(move |_| answer()).tool(name)));
            for _ in 0..2 {
                let response = stack.run_call(call(name)).await;
                assert_eq!(response.remarks(), [Remark::new("first", "one"), Remark::new("second", "two")], "{name}");
            }
        }
        let unknown = remarking(waits).layer(Router::new()).run_call(call("nothing")).await;
        assert_eq!(unknown.remarks().len(), 2);
    }
}

#[tokio::test]
async fn remarks_of_two_layers_and_of_a_withheld_result_stand_in_one_list() {
    let within = HooksLayer::new().before("within", |call| {
        call.remark("within");
        Ok(())
    });
    let outside = HooksLayer::new().after("withhold", |call| {
        call.remark("withheld");
        Err(Halt::forbidden())
    });
    let stack = ServiceBuilder::new().layer(outside).layer(within).service(Router::new().tool(Probe::new().tool("t")));
    let response = stack.run_call(call("t")).await;
    assert_eq!(response.remarks(), [Remark::new("within", "within"), Remark::new("withhold", "withheld")]);
    assert_eq!(response.refusal().unwrap().by(), "withhold");
}
