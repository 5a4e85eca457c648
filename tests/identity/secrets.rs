//! Tokens and keys are in nothing that a model, a client or an operator is shown, however a call ends (I10).

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex},
};

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use serde_json::json;
use toolstack::{
    ListTools, RefusalKind, Router, StackExt, ToolCall,
    layer::{
        AuditLayer, AuthenticateLayer, ScopesLayer, StepUpLayer, TelemetryLayer,
        audit::AuditRecord,
        authenticate::{BearerToken, StaticTokens, TokenError, Verified},
        scopes::ScopeRules,
        step_up::StepUpRule,
        telemetry::Metrics,
    },
    model::{Context, Principal, Secret},
    select::ToolSelector,
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Everything that spans and events say, and whatever else is put there.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<String>>);

impl Shown {
    fn add(&self, text: impl fmt::Display) {
        use fmt::Write;

        writeln!(self.0.lock().unwrap(), "{text}").unwrap();
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Visit for Shown {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(format_args!("{field} = {value:?}"));
    }
}

impl Subscriber for Shown {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        span.record(&mut self.clone());
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A verifier that says in its errors what it was asked about, as careless ones do.
async fn careless(token: BearerToken) -> Result<Verified, TokenError> {
    match token.expose() {
        good if good.starts_with("good") => Ok(Verified::new(Principal::new("ada").scope("files:read"))),
        away if away.starts_with("away") => Err(TokenError::unavailable(format!("cannot look up {away}"))),
        other => Err(TokenError::invalid(format!("there is no {other}"))),
    }
}

/// One call and one list with that token, in that form, through a whole stack. Gives the kinds of refusals that were seen.
async fn try_all(secret: &str, shown: &Shown) -> Vec<Option<RefusalKind>> {
    let metrics = Metrics::new();
    let records = shown.clone();
    let audit = AuditLayer::new(move |record: &AuditRecord| {
        records.add(format_args!("{record:?} {}", serde_json::to_string(record).unwrap()));
    });
    let known = StaticTokens::new().token(Secret::new(format!("static{secret}")), Principal::new("bob")).unwrap();
    let authenticate = AuthenticateLayer::new().bearer(known).bearer(careless).remember(4, std::time::Duration::from_secs(60));
    let mfa = StepUpRule::new(ToolSelector::new().name("strong").unwrap()).acr(["mfa"]);
    let told = |context: Context| format!("{context:?} {:?}", context.principal());
    let stack = ServiceBuilder::new()
        .layer(TelemetryLayer::new().metrics(&metrics))
        .layer(audit)
        .layer(authenticate)
        .layer(ScopesLayer::new(ScopeRules::new().named("write", ["files:write"]).unwrap()))
        .layer(StepUpLayer::new([mfa]))
        .service(["read", "write", "strong"].into_iter().fold(Router::new(), |router, name| router.tool(sync_tool_fn(name, told))))
        .into_stack();

    let mut kinds = Vec::new();
    for begins in ["good", "static", "away", "eve"] {
        let text = format!("{begins}{secret}");
        for name in ["read", "write", "strong"] {
            let mut as_value = Context::new();
            as_value.extensions_mut().insert(BearerToken::new(text.as_str()).unwrap());
            let mut as_header = Context::new();
            let value = |text: String| HeaderValue::from_str(&text).unwrap();
            as_header.extensions_mut().insert(HeaderMap::from_iter([(http::header::AUTHORIZATION, value(format!("Bearer {text}")))]));
            let mut of_another_scheme = Context::new();
            of_another_scheme
                .extensions_mut()
                .insert(HeaderMap::from_iter([(http::header::AUTHORIZATION, value(format!("Basic {text}")))]));
            for context in [as_value, as_header, of_another_scheme] {
                let answer = stack.run_call(ToolCall::new(name, json!({})).with_context(context.clone())).await;
                kinds.push(answer.refusal().map(toolstack::Refusal::kind));
                let challenge = answer.refusal().and_then(toolstack::Refusal::bearer_challenge);
                shown.add(format_args!("{answer:?} {} {challenge:?}", serde_json::to_string(&answer).unwrap()));
                let list = stack.run_list(ListTools::new().with_context(context)).await;
                shown.add(format_args!("{list:?} {}", serde_json::to_string(&list).unwrap()));
            }
        }
    }
    shown.add(format_args!("{stack:?} {} {:?}", stack.describe().await, metrics.snapshot()));
    shown.add(serde_json::to_string(&metrics.dashboard()).unwrap());
    kinds
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn i10_a_token_shows_nowhere_however_the_call_ends(secret in "[A-Za-z0-9_-]{16,40}") {
        let shown = Shown::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let kinds = tracing::subscriber::with_default(shown.clone(), || runtime.block_on(try_all(&secret, &shown)));
        prop_assert!(!shown.text().contains(&secret), "{}", shown.text());
        for kind in [None, Some(RefusalKind::Unauthenticated), Some(RefusalKind::Internal), Some(RefusalKind::InsufficientScope), Some(RefusalKind::StepUp)] {
            prop_assert!(kinds.contains(&kind), "{kind:?} is not among {kinds:?}");
        }
    }

    #[test]
    fn i10_debug_of_no_type_that_holds_a_token_shows_it(secret in "[A-Za-z0-9_-]{16,40}") {
        let token = BearerToken::new(secret.as_str()).unwrap();
        let error = TokenError::invalid(format!("no {secret}"));
        let tokens = StaticTokens::new().token(secret.as_str(), Principal::new("ada")).unwrap();
        let layer = AuthenticateLayer::new().bearer(tokens.clone()).bearer(careless);
        let shown = format!("{:?} {token:?} {error:?} {error} {tokens:?} {layer:?} {:#?}", Secret::new(secret.as_str()), layer);
        prop_assert!(!shown.contains(&secret), "{shown}");
        // The operator can still be told.
        prop_assert!(error.source().unwrap().to_string().contains(&secret));
    }
}
