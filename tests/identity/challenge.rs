//! A tool that needs a credential: the answer in band, and the call that is made once more.

use std::{
    error::Error as _,
    fmt,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::Instant;
use toolstack::{
    RefusalKind, Router, ServiceBuilderExt, Stack, StackExt, Tool, ToolCall, ToolResponse,
    credential::{AuthChallenge, CredentialError, CredentialProvider, CredentialRejected, StaticCredentials, Token, TokenRequest},
    error::{Challenge, failed_text},
    layer::{
        ChallengeLayer,
        permission::{Approval, ApprovalRequest, Effect, PermissionLayer, Rules},
    },
    model::{Context, Outcome, Principal, ToolName},
    stack::Reentry,
    testing::{Probe, Recorder},
    tool::{IntoToolError, ToolError, tool_fn},
};
use tower::{ServiceBuilder, limit::ConcurrencyLimitLayer};

/// A provider that does as it is told, and counts.
#[derive(Clone)]
struct Desk {
    answer: Arc<dyn Fn(usize) -> Result<Token, CredentialError> + Send + Sync>,
    asked: Arc<Mutex<Vec<TokenRequest>>>,
    thrown_away: Arc<Mutex<Vec<Option<String>>>>,
}

impl Desk {
    fn new(answer: impl Fn(usize) -> Result<Token, CredentialError> + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), asked: Arc::default(), thrown_away: Arc::default() }
    }

    /// A new token each time: `token-0`, `token-1`, …
    fn fresh() -> Self {
        Self::new(|n| Ok(Token::new(format!("token-{n}"))))
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl CredentialProvider for Desk {
    fn token<'a>(&'a self, request: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        let n = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(request.clone());
            asked.len() - 1
        };
        Box::pin(async move { (self.answer)(n) })
    }

    fn invalidate(&self, _: &TokenRequest, rejected: Option<&Token>) {
        self.thrown_away.lock().unwrap().push(rejected.map(|token| token.secret().expose().to_owned()));
    }
}

/// A tool that asks for a sign-in until it has a token, and then says which one it has.
fn mail() -> Probe {
    Probe::answering(|call| match Token::of(&call.context) {
        Some(token) => ToolResponse::text(format!("read with {}", token.secret().expose())),
        None => sign_in().into_tool_error(),
    })
}

fn sign_in() -> AuthChallenge {
    AuthChallenge::new("Sign in to your mail.").url("https://mail.example/device").code("WDJB-MJHT").scope("mail.read")
}

fn stack(layer: ChallengeLayer, tool: Tool<Probe>) -> Stack {
    ServiceBuilder::new().layer(layer).service(Router::new().tool(tool)).into_stack()
}

fn answers(response: impl Fn() -> ToolResponse + Send + Sync + 'static) -> Probe {
    Probe::answering(move |_| response())
}

#[tokio::test]
async fn the_answer_in_band_is_that_of_mcs_verbatim() {
    for (challenge, payload) in [
        (AuthChallenge::new("Sign in."), r#"{"auth_required":true,"message":"Sign in."}"#),
        (
            sign_in(),
            r#"{"auth_required":true,"message":"Sign in to your mail.","url":"https://mail.example/device","code":"WDJB-MJHT","scope":"mail.read"}"#,
        ),
        (AuthChallenge::new("a\"b").scope("s"), r#"{"auth_required":true,"message":"a\"b","scope":"s"}"#),
    ] {
        let tool = answers(move || challenge.clone().into_tool_error());
        let answer = stack(ChallengeLayer::in_band(), tool.tool("mail")).call_tool("mail", json!({})).await;
        assert_eq!(answer.as_text().unwrap(), payload);
        assert_eq!((answer.refusal().unwrap().kind(), tool.runs()), (RefusalKind::AuthRequired, 1));
    }
}

#[tokio::test]
async fn the_parts_of_a_challenge_travel_typed_and_what_carries_them_hides_them() {
    let answer = stack(ChallengeLayer::in_band(), mail().tool("mail")).call_tool("mail", json!({})).await;
    let refusal = answer.refusal().unwrap();
    let Some(Challenge::Auth { url, code, scope, .. }) = refusal.challenge() else { panic!("{refusal:?}") };
    assert_eq!((url.as_deref(), code.as_deref(), scope.as_deref()), (sign_in().url.as_deref(), Some("WDJB-MJHT"), Some("mail.read")));
    assert_eq!(AuthChallenge::of(refusal), Some(sign_in()));
    assert!(!format!("{refusal:?}{:?}", sign_in()).contains("WDJB"));
}

#[tokio::test]
async fn a_challenge_is_told_from_anywhere_within_a_tool() {
    #[derive(Debug)]
    struct Wrapped(AuthChallenge);
    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the mail library failed")
        }
    }
    impl std::error::Error for Wrapped {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let router = Router::new()
        .tool(tool_fn("plain", async || Err::<(), ToolError>(sign_in().into())))
        .tool(tool_fn("typed", async || Err::<(), AuthChallenge>(sign_in())))
        .tool(tool_fn("wrapped", async || Err::<(), ToolError>(Wrapped(sign_in()).into())))
        .tool(tool_fn("provider", async || Err::<(), ToolError>(CredentialError::from(sign_in()).into())));
    for name in ["plain", "typed", "wrapped", "provider"] {
        // Without the layer, the model reads the message, and the record of MCS has its prefix.
        let answer = router.call_tool(name, json!({})).await;
        let refusal = answer.refusal().unwrap();
        assert_eq!((refusal.kind(), answer.as_text().as_deref()), (RefusalKind::AuthRequired, Some("Sign in to your mail.")), "{name}");
        let record = failed_text(&ToolName::new(name).unwrap(), refusal);
        assert_eq!(record, format!("Tool '{name}' failed: Sign in to your mail."));
        let layered = ServiceBuilder::new().layer(ChallengeLayer::in_band()).service(router.clone());
        assert_eq!(layered.call_tool(name, json!({})).await.as_text().unwrap(), sign_in().payload(), "{name}");
    }
}

#[tokio::test]
async fn a_challenge_is_answered_by_a_credential_and_one_more_call_of_the_same_id_and_arguments() {
    let (desk, tool) = (Desk::fresh(), mail());
    let stack = stack(ChallengeLayer::new(desk.clone()), tool.tool("mail"));
    let call = ToolCall::new("mail", json!({ "n": 1 })).with_id("c1").with_context(Context::new().with_principal(Principal::new("ada")));
    let answer = stack.run_call(call).await;
    assert_eq!((answer.outcome(), answer.as_text().as_deref()), (Outcome::Completed, Some("read with token-0")));
    let calls = tool.calls();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.id == "c1".into() && call.arguments.as_json().unwrap() == r#"{"n":1}"#));
    let asked = desk.asked.lock().unwrap();
    assert_eq!((asked.len(), asked[0].scope.as_deref()), (1, Some("mail.read")));
    assert_eq!(asked[0].principal.as_ref().unwrap().subject, "ada");
}

#[tokio::test]
async fn a_tool_that_asks_again_is_answered_in_band_and_not_called_a_third_time() {
    let (desk, tool) = (Desk::fresh(), answers(|| sign_in().into_tool_error()));
    let answer = stack(ChallengeLayer::new(desk.clone()), tool.tool("mail")).call_tool("mail", json!({})).await;
    assert_eq!(answer.as_text().unwrap(), sign_in().payload());
    assert_eq!((tool.runs(), desk.asked()), (2, 1));
}

#[tokio::test]
async fn a_call_that_had_effects_is_not_made_again() {
    let (desk, tool) = (Desk::fresh(), answers(|| sign_in().after_effects().into_tool_error()));
    let answer = stack(ChallengeLayer::new(desk.clone()), tool.tool("mail")).call_tool("mail", json!({})).await;
    assert_eq!(answer.as_text().unwrap(), sign_in().payload());
    assert_eq!((tool.runs(), desk.asked()), (1, 0));

    // What was not accepted is thrown away all the same.
    let tool = answers(|| CredentialRejected::new("mail.read").after_effects().into_tool_error());
    let answer = stack(ChallengeLayer::new(desk.clone()), tool.tool("mail")).call_tool("mail", json!({})).await;
    assert_eq!(answer.outcome(), Outcome::Refused(RefusalKind::AuthRequired));
    assert_eq!((tool.runs(), desk.asked(), desk.thrown_away.lock().unwrap().len()), (1, 0, 1));
}

#[tokio::test]
async fn what_the_provider_says_instead_of_a_credential_is_the_answer() {
    let device = || AuthChallenge::new("Enter the code.").url("https://id.example").code("A-1");
    type Answer = fn() -> CredentialError;
    let cases: [(Answer, RefusalKind, String); 4] = [
        (
            || AuthChallenge::new("Enter the code.").url("https://id.example").code("A-1").into(),
            RefusalKind::AuthRequired,
            device().payload(),
        ),
        (|| CredentialError::missing(None), RefusalKind::AuthRequired, sign_in().payload()),
        (|| CredentialError::Denied, RefusalKind::Denied, "Access was not granted.".to_owned()),
        (
            || CredentialError::failed("the server said hunter2"),
            RefusalKind::Internal,
            "The credential could not be had at this moment; this is not about the arguments.".to_owned(),
        ),
    ];
    for (error, kind, text) in cases {
        let tool = mail();
        let answer = stack(ChallengeLayer::new(Desk::new(move |_| Err(error()))), tool.tool("mail")).call_tool("mail", json!({})).await;
        assert_eq!((answer.refusal().unwrap().kind(), answer.as_text().unwrap().into_owned()), (kind, text));
        assert_eq!(tool.runs(), 1);
        assert!(!format!("{answer:?}").contains("hunter2"));
    }
}

/// A tool whose service accepts one token only, and which keeps to what it was given first.
fn accepts(right: &'static str, first: &'static str) -> Probe {
    Probe::answering(move |call| {
        let token = Token::of(&call.context).cloned().unwrap_or_else(|| Token::new(first));
        if token.secret().expose() == right {
            ToolResponse::text("accepted")
        } else {
            CredentialRejected::new("mail.read").token(token).into_tool_error()
        }
    })
}

#[tokio::test]
async fn a_credential_that_is_not_accepted_is_thrown_away_and_the_call_made_once_more() {
    let (desk, tool) = (Desk::fresh(), accepts("token-0", "old"));
    let answer = stack(ChallengeLayer::new(desk.clone()), tool.tool("mail")).call_tool("mail", json!({})).await;
    assert_eq!((answer.as_text().as_deref(), tool.runs()), (Some("accepted"), 2));
    assert_eq!(*desk.thrown_away.lock().unwrap(), [Some("old".to_owned())]);
}

#[tokio::test]
async fn a_second_credential_that_is_not_accepted_is_thrown_away_too_and_that_is_all() {
    let (desk, tool) = (Desk::fresh(), accepts("never", "old"));
    let answer = stack(ChallengeLayer::new(desk.clone()), tool.tool("mail")).call_tool("mail", json!({})).await;
    assert_eq!((answer.outcome(), tool.runs(), desk.asked()), (Outcome::Refused(RefusalKind::AuthRequired), 2, 1));
    assert_eq!(*desk.thrown_away.lock().unwrap(), [Some("old".to_owned()), Some("token-0".to_owned())]);
    let text = answer.as_text().unwrap().into_owned();
    assert_eq!(
        text,
        r#"{"auth_required":true,"message":"The credential for mail.read was not accepted; another one is needed.","scope":"mail.read"}"#
    );
}

#[tokio::test]
async fn the_credential_that_was_not_accepted_is_not_tried_again() {
    let tool = accepts("never", "fixed");
    let credentials = StaticCredentials::new().credential("mail.read", "fixed");
    let answer = stack(ChallengeLayer::new(credentials), tool.tool("mail")).call_tool("mail", json!({})).await;
    assert_eq!((answer.outcome(), tool.runs()), (Outcome::Refused(RefusalKind::AuthRequired), 1));
}

#[tokio::test]
async fn a_person_who_allowed_the_call_is_asked_once_and_the_permit_holds_for_both_attempts() {
    let (asked, tool) = (Arc::new(AtomicUsize::new(0)), mail());
    let approver = {
        let asked = Arc::clone(&asked);
        move |_: ApprovalRequest| {
            asked.fetch_add(1, Relaxed);
            async { Ok(Approval::once()) }
        }
    };
    let permission = PermissionLayer::new(Rules::empty(), Effect::Ask).ask(approver);
    let router = || Router::new().tool(tool.tool("mail"));

    let right = ServiceBuilder::new().layer(permission.clone()).challenge(Desk::fresh()).service(router());
    assert_eq!(right.call_tool("mail", json!({})).await.as_text().as_deref(), Some("read with token-0"));
    assert_eq!((asked.swap(0, Relaxed), tool.runs()), (1, 2));
    assert!(right.lint().await.is_empty());

    let wrong = ServiceBuilder::new().challenge(Desk::fresh()).layer(permission).service(router());
    assert!(wrong.call_tool("mail", json!({})).await.is_completed());
    assert_eq!(asked.load(Relaxed), 2);
    let rules: Vec<_> = wrong.lint().await.iter().map(|fault| fault.rule).collect();
    assert!(rules.contains(&"wait-repeated"), "{rules:?}");
}

#[tokio::test]
async fn a_challenge_layer_outside_what_decides_is_a_fault() {
    let decide = || toolstack::layer::gate("decide", |_| Ok(()));
    let wrong = ServiceBuilder::new().challenge(Desk::fresh()).layer(decide()).service(Router::new());
    let faults = wrong.lint().await;
    assert_eq!(faults.iter().map(|fault| fault.rule).collect::<Vec<_>>(), ["credential-before-decision"]);
    let right = ServiceBuilder::new().layer(decide()).challenge(Desk::fresh()).service(Router::new());
    assert!(right.lint().await.is_empty());
    assert!(right.describe().await.to_string().contains("challenge (provider: custom)"));
}

#[tokio::test]
async fn a02_whoever_stands_outside_sees_one_start_and_one_end_and_whoever_stands_within_sees_both_attempts() {
    let recorder = Recorder::new();
    let tool = mail();
    let around = |layer: ChallengeLayer| {
        ServiceBuilder::new()
            .layer(recorder.layer("out"))
            .layer(layer)
            .layer(recorder.layer("in"))
            .service(Router::new().tool(tool.tool("mail")))
    };
    let auth = Outcome::Refused(RefusalKind::AuthRequired);
    assert!(around(ChallengeLayer::new(Desk::fresh())).call_tool("mail", json!({})).await.is_completed());
    assert_eq!((recorder.outcomes("out"), recorder.outcomes("in")), (vec![Outcome::Completed], vec![auth, Outcome::Completed]));
    around(ChallengeLayer::in_band()).call_tool("mail", json!({})).await;
    assert_eq!(recorder.outcomes("out"), [Outcome::Completed, auth]);
}

/// A provider that is asked and does not answer.
struct Silent(Arc<AtomicUsize>);

impl CredentialProvider for Silent {
    fn token<'a>(&'a self, _: &'a TokenRequest) -> BoxFuture<'a, Result<Token, CredentialError>> {
        struct Dropped(Arc<AtomicUsize>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }
        self.0.fetch_add(1, Relaxed);
        let held = Dropped(Arc::clone(&self.0));
        Box::pin(async move {
            let _held = held;
            pending().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_does_not_answer_is_waited_for_so_long_and_no_longer_than_the_deadline() {
    let waiting = Arc::new(AtomicUsize::new(0));
    let stack = |layer: ChallengeLayer| stack(layer, mail().tool("mail"));
    let began = Instant::now();
    let answer = stack(ChallengeLayer::new(Silent(Arc::clone(&waiting))).wait(Duration::from_secs(7))).call_tool("mail", json!({})).await;
    assert_eq!((answer.refusal().unwrap().kind(), began.elapsed()), (RefusalKind::Timeout, Duration::from_secs(7)));

    let began = Instant::now();
    let context = Context::new().with_deadline(began + Duration::from_secs(3));
    let call = ToolCall::new("mail", json!({})).with_context(context);
    let answer = stack(ChallengeLayer::new(Silent(Arc::clone(&waiting)))).run_call(call).await;
    assert_eq!((answer.refusal().unwrap().kind(), began.elapsed()), (RefusalKind::Timeout, Duration::from_secs(3)));
    assert_eq!(waiting.load(Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_credential_holds_no_place_and_one_that_is_dropped_asks_no_more() {
    let (waiting, tool) = (Arc::new(AtomicUsize::new(0)), mail());
    let stack = ServiceBuilder::new()
        .layer(ChallengeLayer::new(Silent(Arc::clone(&waiting))))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(Router::new().tool(tool.tool("mail")).tool(Probe::new().tool("other")));
    let mut call = Box::pin(stack.call_tool("mail", json!({})));
    assert!(futures_util::poll!(&mut call).is_pending());
    assert_eq!((tool.runs(), waiting.load(Relaxed)), (1, 1));
    assert!(stack.call_tool("other", json!({})).await.is_completed());
    drop(call);
    assert_eq!((tool.runs(), waiting.load(Relaxed)), (1, 0));
}

#[tokio::test]
async fn each_of_many_calls_at_once_gets_through_a_limit_of_one() {
    let (desk, tool) = (Desk::fresh(), mail());
    let stack = ServiceBuilder::new()
        .layer(ChallengeLayer::new(desk.clone()))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(Router::new().tool(tool.tool("mail")));
    let answers = futures_util::future::join_all((0..50).map(|_| stack.call_tool("mail", json!({})))).await;
    assert!(answers.iter().all(ToolResponse::is_completed));
    assert_eq!((tool.runs(), desk.asked()), (100, 50));
}

#[tokio::test]
async fn a_call_that_a_tool_makes_does_not_inherit_its_credential() {
    async fn outer(token: Option<Token>, stack: Reentry) -> Result<String, ToolError> {
        token.ok_or_else(sign_in)?;
        Ok(stack.call_tool("inner", json!({})).await.as_text().unwrap_or_default().into_owned())
    }
    async fn inner(token: Option<Token>) -> &'static str {
        if token.is_some() { "it was handed on" } else { "nothing was handed on" }
    }
    let router = Router::new().tool(tool_fn("outer", outer)).tool(tool_fn("inner", inner));
    let stack = ServiceBuilder::new().challenge(Desk::fresh()).service(router).into_stack();
    assert_eq!(stack.call_tool("outer", json!({})).await.as_text().as_deref(), Some("nothing was handed on"));
}

#[tokio::test]
async fn what_lies_behind_a_failure_is_for_the_operator() {
    let desk = Desk::new(|_| Err(CredentialError::failed("hunter2")));
    let answer = stack(ChallengeLayer::new(desk), mail().tool("mail")).call_tool("mail", json!({})).await;
    let source = answer.refusal().unwrap().source().unwrap();
    assert!(!source.to_string().contains("hunter2"));
    assert_eq!(source.source().unwrap().to_string(), "hunter2");
}
