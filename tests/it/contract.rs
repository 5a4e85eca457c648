//! Every layer of this crate is a row: each law of the contract holds for it.

use std::{convert::Infallible, time::Duration};

use serde_json::json;
use toolstack::{
    ToolCall,
    layer::{
        CatchErrorLayer, CatchPanicLayer, PinLayer, RedactLayer, RequireFieldsLayer, SessionLayer, TimeoutLayer, ValidateLayer,
        VisibilityLayer, after, calls, gate, gate_async, gate_tool, map_call, map_list, map_result, named, redact::Redactor, reload,
        reload::AnyLayer,
    },
    middleware::{Next, from_fn},
    store::{MemorySessions, Owner, SessionLimits},
    testing::{Contract, Recorder, StrictError},
};
use tower::{ServiceBuilder, buffer::BufferLayer, limit::ConcurrencyLimitLayer};

macro_rules! rows {
    ($($(#[$meta:meta])* $name:ident: $contract:expr;)*) => {$(
        $(#[$meta])*
        #[tokio::test(start_paused = true)]
        async fn $name() {
            $contract.check().await;
        }
    )*};
}

rows! {
    after_keeps_the_contract: Contract::new(|| after("after", |_| {}));
    calls_of_nothing_keep_the_contract: Contract::new(|| named("calls", calls(tower::layer::util::Identity::new())));
    catch_error_keeps_the_contract: Contract::new(CatchErrorLayer::new).closes_errors();
    catch_panic_keeps_the_contract: Contract::new(CatchPanicLayer::new);
    from_fn_keeps_the_contract: Contract::new(|| from_fn(async |call: ToolCall, next: Next<StrictError>| next.run(call).await));
    gate_keeps_the_contract: Contract::new(|| gate("gate", |_| Ok(())));
    gate_async_keeps_the_contract: Contract::new(|| {
        gate_async("gate_async", async |_| {
            tokio::task::yield_now().await;
            Ok(())
        })
    });
    gate_tool_keeps_the_contract: Contract::new(|| gate_tool("gate_tool", |_, _| Ok(())));
    map_call_keeps_the_contract: Contract::new(|| map_call("map_call", |_| {}));
    map_list_keeps_the_contract: Contract::new(|| map_list("map_list", |_, _| {}));
    map_result_keeps_the_contract: Contract::new(|| map_result("map_result", |_| {}));
    named_keeps_the_contract: Contract::new(|| named("named", tower::layer::util::Identity::new()));
    pin_keeps_the_contract: Contract::new(|| PinLayer::session("session_id"));
    recorder_keeps_the_contract: Contract::new(|| Recorder::new().layer("place"));
    redact_keeps_the_contract: Contract::new(|| RedactLayer::new(Redactor::secrets().and(&Redactor::personal()).numbers()));
    reload_keeps_the_contract: Contract::new(|| reload(gate("gate", |_| Ok(()))).0.judge_again());
    reload_of_any_layer_keeps_the_contract: Contract::new(|| reload(AnyLayer::new(gate_async("gate", async |_| Ok(())))).0).closes_errors();
    require_fields_keeps_the_contract: Contract::new(|| RequireFieldsLayer::truthy(["n"])).call(|| ToolCall::new("probe", json!({ "n": 1 })));
    session_keeps_the_contract: Contract::new(|| {
        let store = MemorySessions::new(SessionLimits::new(4));
        store.open_as("s1", Owner::Anyone, ()).unwrap();
        SessionLayer::new(store).required("session_id").require_open().refresh()
    })
    .call(|| ToolCall::new("probe", json!({ "session_id": "s1" })));
    timeout_keeps_the_contract: Contract::new(|| TimeoutLayer::new(Duration::from_secs(30)).idle(Duration::from_secs(10)));
    validate_keeps_the_contract: Contract::new(ValidateLayer::json_schema).call(|| ToolCall::new("probe", json!({ "n": 1.5 })));
    visibility_keeps_the_contract: Contract::new(|| VisibilityLayer::new(|_, _| true));
    tower_s_limit_keeps_the_contract: Contract::new(|| ConcurrencyLimitLayer::new(4));
    a_stack_of_layers_keeps_the_contract: Contract::new(|| {
        ServiceBuilder::new()
            .layer(CatchPanicLayer::new())
            .layer(VisibilityLayer::new(|_, _| true))
            .layer(gate_async("ask", async |_| Ok(())))
            .layer(TimeoutLayer::new(Duration::from_secs(30)))
            .layer(ConcurrencyLimitLayer::new(2))
            .into_inner()
    });
}
