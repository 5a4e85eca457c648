//! Every layer of this crate is a row: each law of the contract holds for it.
//! Each law is broken by [layers that are bad on purpose](bad).

mod bad;

use std::time::Duration;

use serde_json::json;
use toolstack::{
    ToolCall,
    credential::StaticCredentials,
    layer::{
        AuditLayer, AuthenticateLayer, CatchErrorLayer, CatchPanicLayer, ChallengeLayer, PinLayer, RedactLayer, RequireFieldsLayer,
        ScopesLayer, SessionLayer, StepUpLayer, TelemetryLayer, TimeoutLayer, ValidateLayer, VisibilityLayer, after,
        audit::AuditRecord,
        calls, gate, gate_async, gate_tool,
        hooks::{Hook, HooksLayer},
        map_call, map_list, map_result, named,
        permission::{Approval, ApprovalRequest, Effect, PermissionLayer, Rules},
        redact::Redactor,
        reload,
        reload::AnyLayer,
        scopes::ScopeRules,
        step_up::StepUpRule,
    },
    middleware::{Next, from_fn},
    select::ToolSelector,
    store::{MemorySessions, SessionLimits, SessionOwner},
    testing::{Contract, Recorder, StrictError},
};
use tower::{ServiceBuilder, limit::ConcurrencyLimitLayer};

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
    audit_keeps_the_contract: Contract::new(|| AuditLayer::new(|_: &AuditRecord| {}));
    audit_that_is_required_keeps_the_contract: Contract::new(|| AuditLayer::new(|_: &AuditRecord| {}).required());
    after_keeps_the_contract: Contract::new(|| after("after", |_| {}));
    authenticate_keeps_the_contract: Contract::new(|| AuthenticateLayer::new().trust_context().allow_anonymous());
    calls_of_nothing_keep_the_contract: Contract::new(|| named("calls", calls(tower::layer::util::Identity::new())));
    catch_error_keeps_the_contract: Contract::new(CatchErrorLayer::new).closes_errors();
    catch_panic_keeps_the_contract: Contract::new(CatchPanicLayer::new);
    challenge_keeps_the_contract: Contract::new(|| ChallengeLayer::new(StaticCredentials::new()));
    challenge_in_band_keeps_the_contract: Contract::new(ChallengeLayer::in_band);
    from_fn_keeps_the_contract: Contract::new(|| from_fn(async |call: ToolCall, next: Next<StrictError>| next.run(call).await));
    gate_keeps_the_contract: Contract::new(|| gate("gate", |_| Ok(())));
    gate_async_keeps_the_contract: Contract::new(|| {
        gate_async("gate_async", async |_| {
            tokio::task::yield_now().await;
            Ok(())
        })
    });
    gate_tool_keeps_the_contract: Contract::new(|| gate_tool("gate_tool", |_, _| Ok(())));
    hooks_keep_the_contract: Contract::new(|| {
        HooksLayer::new()
            .before_request("request", |_| Ok(()))
            .after_list("list", |_| Ok(()))
            .before("before", |_| Ok(()))
            .after("after", |_| Ok(()))
            .on_finish("finish", |_| ())
    });
    hooks_that_take_their_time_keep_the_contract: Contract::new(|| {
        HooksLayer::new()
            .before_request_async("request", |_| Box::pin(async {
                tokio::task::yield_now().await;
                Ok(())
            }))
            .after_list_async("list", |_| Box::pin(async {
                tokio::task::yield_now().await;
                Ok(())
            }))
            .hook(Hook::before_async("before", |_| Box::pin(async {
                tokio::task::yield_now().await;
                Ok(())
            })).fail_open())
            .after_async("after", |_| Box::pin(async {
                tokio::task::yield_now().await;
                Ok(())
            }))
            .on_finish_async("finish", |_| tokio::task::yield_now())
    });
    hooks_on_the_way_out_that_take_their_time_keep_the_contract: Contract::new(|| {
        HooksLayer::new().on_success_async("success", |_| tokio::task::yield_now()).after_async("after", |_| Box::pin(async {
            tokio::task::yield_now().await;
            Ok(())
        }))
    });
    map_call_keeps_the_contract: Contract::new(|| map_call("map_call", |_| {}));
    map_list_keeps_the_contract: Contract::new(|| map_list("map_list", |_, _| {}));
    map_result_keeps_the_contract: Contract::new(|| map_result("map_result", |_| {}));
    named_keeps_the_contract: Contract::new(|| named("named", tower::layer::util::Identity::new()));
    pin_keeps_the_contract: Contract::new(|| PinLayer::session("session_id"));
    telemetry_keeps_the_contract: Contract::new(TelemetryLayer::new);
    recorder_keeps_the_contract: Contract::new(|| Recorder::new().layer("place"));
    permission_keeps_the_contract: Contract::new(|| PermissionLayer::new(Rules::empty(), Effect::Allow));
    permission_that_asks_keeps_the_contract: Contract::new(|| {
        PermissionLayer::new(Rules::empty(), Effect::Ask).ask(async |_: ApprovalRequest| Ok(Approval::once()))
    });
    redact_keeps_the_contract: Contract::new(|| RedactLayer::new(Redactor::secrets().and(&Redactor::personal()).numbers()));
    reload_keeps_the_contract: Contract::new(|| reload(gate("gate", |_| Ok(()))).0.judge_again());
    reload_of_any_layer_keeps_the_contract: Contract::new(|| reload(AnyLayer::new(gate_async("gate", async |_| Ok(())))).0).closes_errors();
    require_fields_keeps_the_contract: Contract::new(|| RequireFieldsLayer::truthy(["n"])).call(|| ToolCall::new("probe", json!({ "n": 1 })));
    scopes_keep_the_contract: Contract::new(|| ScopesLayer::new(ScopeRules::new().forbid(ToolSelector::new().tag("nobody")).hide()));
    step_up_keeps_the_contract: Contract::new(|| StepUpLayer::new([StepUpRule::new(ToolSelector::new())]).let_anonymous_pass());
    session_keeps_the_contract: Contract::new(|| {
        let store = MemorySessions::new(SessionLimits::new(4));
        store.open_as("s1", SessionOwner::Anyone, ()).unwrap();
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
            .layer(ConcurrencyLimitLayer::new(4))
            .into_inner()
    });
}
