//! A secret in each public type that may hold one, wherever it fits, and what `Debug` shows of it.

use std::{
    error::Error,
    fmt::Debug,
    time::{Duration, SystemTime},
};

use proptest::prelude::*;
use serde_json::json;
use toolstack::{
    ListTools, Refusal, RefusalKind, ToolCall, ToolResponse,
    credential::{AuthChallenge, CredentialError, CredentialRejected, StaticCredentials, Token, TokenRequest, oauth::Client},
    error::Challenge,
    layer::{
        AuditLayer, AuthenticateLayer, ChallengeLayer, RedactLayer,
        audit::AuditRecord,
        authenticate::{BearerToken, StaticTokens, TokenError, Verified, jwt::JwtVerifier},
        hooks::external::{Answer, ExternalEvent, ExternalHook},
        permission::Approval,
        redact::{Detector, Redactor},
    },
    model::{
        Arguments, Content, Context, InputRequired, Principal, RawObject, Remark, Resume, Secret, TaskHandle, ToolResult, TraceContext,
    },
    store::{Owner, PendingApproval, ToolIdentity},
    testing::Probe,
    tool::ToolError,
};

fn raw(secret: &str) -> Box<serde_json::value::RawValue> {
    serde_json::value::to_raw_value(secret).unwrap()
}

fn object(secret: &str) -> RawObject {
    let mut object = RawObject::new();
    object.insert_raw("it", raw(secret));
    object
}

fn context(secret: &str) -> Context {
    let mut principal = Principal::new("ada");
    principal.claims.insert_raw("access_token", raw(secret));
    let mut trace = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    (trace.tracestate, trace.baggage) = (Some(format!("vendor={secret}")), Some(format!("key={secret}")));
    let mut context = Context::new().with_principal(principal).with_session(secret).with_trace(trace);
    context = context.with_resume(Resume::new(Some(secret.into()), object(secret)));
    context.meta_mut().insert("token", secret).unwrap();
    context.extensions_mut().insert(BearerToken::new(secret).unwrap());
    context.extensions_mut().insert(Token::new(secret));
    context
}

fn blocks(secret: &str) -> Vec<Content> {
    let one = |value: serde_json::Value| serde_json::from_value(value).unwrap();
    vec![
        one(json!({ "type": "text", "text": secret, "_meta": { "it": secret }, "new": secret })),
        one(json!({ "type": "image", "data": secret, "mimeType": "image/png" })),
        one(json!({ "type": "audio", "data": secret, "mimeType": "audio/wav" })),
        one(
            json!({ "type": "resource", "resource": { "uri": format!("https://u:{secret}@h/p?sig={secret}"), "text": secret, "new": secret } }),
        ),
        one(json!({ "type": "resource", "resource": { "uri": "file:///a", "blob": secret } })),
        one(json!({ "type": "resource_link", "name": "a", "uri": format!("https://h/p#{secret}"), "description": secret })),
        one(json!({ "type": "of_another_version", "it": secret })),
    ]
}

fn result(secret: &str) -> ToolResult {
    let mut result = ToolResult::structured(&json!({ "it": secret })).unwrap();
    for block in blocks(secret) {
        result = result.with(block);
    }
    result
}

fn refusal(secret: &str) -> Refusal {
    Refusal::new(RefusalKind::AuthRequired, "Sign in.")
        .with_challenge(Challenge::auth(Some(format!("https://h/{secret}")), Some(secret.to_owned()), None))
        .with_source(secret.to_owned())
}

fn challenge(secret: &str) -> AuthChallenge {
    AuthChallenge::new("Sign in.").url(format!("https://h/{secret}")).code(secret)
}

fn both(value: &dyn Debug) -> String {
    format!("{value:?} {value:#?}")
}

/// Each type by its name, and what is shown of one that holds the secret.
pub(super) fn everything(secret: &str) -> Vec<(&'static str, String)> {
    let owned = || secret.to_owned();
    let request = TokenRequest::of(&ToolCall::new("t", json!({})).with_context(context(secret)), Some("mail"));
    let call = || ToolCall::new("t", json!({ "password": secret, secret: 1 })).with_context(context(secret));
    let anybody = Owner::of(&Context::new().with_session(secret));
    let tool: ToolIdentity = serde_json::from_value(json!({ "name": "t", "source": "s", "fingerprint": "f" })).unwrap();
    let arguments = || Arguments::from_text(format!(r#"{{"it":"{secret}"}}"#));
    let pending = PendingApproval::new("i".into(), "l".into(), anybody.clone(), tool, arguments(), "m".into(), SystemTime::UNIX_EPOCH);
    let tokens = StaticTokens::new().token(owned(), Principal::new("ada")).unwrap();
    let client = Client::new("id", "https://h/token").unwrap().secret(owned());
    let key = Secret::new(secret.repeat(32));
    let jwt = JwtVerifier::with_secret(toolstack::layer::authenticate::jwt::SecretAlgorithm::Hs256, &key, "i", "a").unwrap();
    let hook = ExternalHook::new("h", "/bin/true").arg(secret).env("TOKEN", secret);
    let answer = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "permissionDecisionReason": secret,
        "updatedInput": { "it": secret }, "additionalContext": secret,
    } });
    let answer = Answer::parse(ExternalEvent::PreToolUse, answer.to_string().as_bytes()).unwrap();
    let detector = Detector::literal("vault", secret);
    let redactor = Redactor::new().detector(Detector::literal("vault", secret));
    let audit = AuditLayer::new(|_: &AuditRecord| {}).digest_key(Secret::new(secret)).arguments(redactor.clone());
    let provider = StaticCredentials::new().credential("mail", owned());
    let mut task = TaskHandle::new("t-1");
    (task.meta, task.extra) = (object(secret), object(secret));
    let mut shown = vec![
        ("Secret", both(&Secret::new(secret))),
        ("Token", both(&Token::new(secret).expires_in(Duration::from_secs(1)))),
        ("TokenRequest", both(&request)),
        ("AuthChallenge", both(&challenge(secret))),
        ("CredentialRejected", both(&CredentialRejected::new("mail").token(Token::new(secret)))),
        ("CredentialError", both(&CredentialError::from(challenge(secret)))),
        ("StaticCredentials", both(&provider)),
        ("ChallengeLayer", both(&ChallengeLayer::new(provider))),
        ("Client", both(&client)),
        ("BearerToken", both(&BearerToken::new(secret).unwrap())),
        ("TokenError", both(&TokenError::invalid(owned()))),
        ("Verified", both(&Verified::new(Principal::clone(context(secret).principal())))),
        ("StaticTokens", both(&tokens)),
        ("JwtVerifier", both(&jwt)),
        ("AuthenticateLayer", both(&AuthenticateLayer::new().bearer(tokens).bearer(jwt).remember(1, Duration::from_secs(1)))),
        ("AuditLayer", both(&audit)),
        ("Detector", both(&detector)),
        ("Redactor", both(&redactor)),
        ("RedactLayer", both(&RedactLayer::new(redactor))),
        ("ExternalHook", both(&hook)),
        ("Answer", both(&answer)),
        ("Principal", both(context(secret).principal())),
        ("Context", both(&context(secret))),
        ("TraceContext", both(context(secret).trace().unwrap())),
        ("Resume", both(context(secret).resume().unwrap())),
        ("ToolCall", both(&call())),
        ("ListTools", both(&ListTools::new().with_context(context(secret)))),
        ("Arguments", both(&arguments())),
        ("RawObject", both(&object(secret))),
        ("Remark", both(&Remark::new("hook", secret))),
        ("InputRequired", both(&InputRequired::new(secret).request("q", raw(secret)))),
        ("TaskHandle", both(&task)),
        ("ToolResult", both(&result(secret))),
        ("ToolResponse", both(&ToolResponse::from(result(secret)))),
        ("Content", both(&blocks(secret))),
        ("Refusal", both(&refusal(secret))),
        ("Challenge", both(&refusal(secret).challenge())),
        ("ToolError", both(&ToolError::new("It failed.").with_source(owned()))),
        ("Owner", both(&anybody)),
        ("PendingApproval", both(&pending)),
        ("Approval", both(&[Approval::edited(arguments()), Approval::answered(result(secret))])),
        (
            "Probe",
            both(&Probe::answering({
                let response = ToolResponse::from(result(secret));
                move |_| response.clone()
            })),
        ),
    ];
    for block in blocks(secret) {
        shown.push(match &block {
            Content::Text(text) => ("Text", both(text)),
            Content::Image(media) | Content::Audio(media) => ("Media", both(media)),
            Content::Resource(resource) => ("Resource", both(resource)),
            Content::ResourceLink(link) => ("ResourceLink", both(link)),
            _ => ("Content", both(&block)),
        });
    }
    shown
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn i10_debug_of_no_public_type_shows_what_is_secret(secret in "[A-Za-z0-9_-]{16,40}") {
        for (name, shown) in everything(&secret) {
            prop_assert!(!shown.is_empty());
            prop_assert!(!shown.contains(&secret), "{name}: {shown}");
        }
    }

    #[test]
    fn i10_what_an_error_says_has_no_secret_and_its_cause_is_there_for_the_operator(secret in "[A-Za-z0-9_-]{16,40}") {
        let told = [refusal(&secret).to_string(), CredentialError::failed(secret.clone()).to_string(), TokenError::invalid(secret.clone()).to_string()];
        prop_assert!(told.iter().all(|text| !text.contains(&secret)), "{told:?}");
        let challenge = challenge(&secret);
        prop_assert!(!challenge.to_string().contains(&secret));
        prop_assert!(refusal(&secret).source().unwrap().to_string().contains(&secret));
    }
}
