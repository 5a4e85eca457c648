use std::{error::Error, sync::Arc};

use http::{Request, request::Parts};
use proptest::prelude::*;
use toolstack::{
    ListTools, RefusalKind, StackExt,
    layer::{
        AuthenticateLayer,
        authenticate::{BearerToken, BearerTokenError, StaticTokens, TokenVerifier},
    },
    model::{Context, Principal},
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;

use super::{Slow, call, call_with, challenge, headers, refusal, stack, token, tokens, who};

fn parts(values: &[&str]) -> Parts {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.headers = headers(values);
    parts
}

#[tokio::test]
async fn a_token_says_who_it_is() {
    let stack = stack(AuthenticateLayer::new().bearer(tokens()));
    assert_eq!(who(&stack, token("ada-t0ken")).await.as_deref(), Some("ada"));
    assert_eq!(who(&stack, token("bob-t0ken")).await.as_deref(), Some("bob"));
    assert_eq!(who(&stack, token("eve-t0ken")).await, None);
    assert_eq!(who(&stack, call()).await, None);
}

#[tokio::test]
async fn lists_are_for_those_who_are_known_too() {
    let stack = stack(AuthenticateLayer::new().bearer(tokens()));
    assert_eq!(stack.list_tools().await.refusal().unwrap().kind(), RefusalKind::Unauthenticated);
    let mut context = Context::new();
    context.extensions_mut().insert(BearerToken::new("ada-t0ken").unwrap());
    assert_eq!(stack.run_list(ListTools::new().with_context(context)).await.names().count(), 1);
}

#[tokio::test]
async fn a_header_is_read_wherever_a_face_put_it() {
    let stack = stack(AuthenticateLayer::new().bearer(tokens()));
    for value in ["Bearer ada-t0ken", "bearer ada-t0ken", "BEARER   ada-t0ken", "bEaReR ada-t0ken "] {
        assert_eq!(who(&stack, call_with(headers(&[value]))).await.as_deref(), Some("ada"), "{value}");
        assert_eq!(who(&stack, call_with(parts(&[value]))).await.as_deref(), Some("ada"), "{value}");
        assert_eq!(who(&stack, call_with(Arc::new(parts(&[value])))).await.as_deref(), Some("ada"), "{value}");
    }
}

#[tokio::test]
async fn one_token_in_one_form_or_none() {
    let stack = stack(AuthenticateLayer::new().bearer(tokens()).allow_anonymous());
    let huge = format!("Bearer {}", "x".repeat(BearerToken::MAX_LENGTH + 1));
    for values in [
        &["Bearer ada-t0ken", "Bearer ada-t0ken"][..],
        &["Bearer ada-t0ken", "Basic YTpi"],
        &["Basic YTpi"],
        &["Bearer"],
        &["Bearer "],
        &[""],
        &["ada-t0ken"],
        &["Bearer ada-t0ken, Bearer bob-t0ken"],
        &["Bearer ada-t0ken bob-t0ken"],
        &["Bearer \"ada-t0ken\""],
        &["Bearer ada\u{2011}t0ken"],
        &["Bearer\tada-t0ken"],
        &["Bearer ==="],
        &[huge.as_str()],
    ] {
        let answer = stack.run_call(call_with(headers(values))).await;
        let told = challenge(&answer);
        assert_eq!((told.status, told.error), (400, Some("invalid_request")), "{values:?}");
        assert_eq!(refusal(&answer).kind(), RefusalKind::Unauthenticated);
    }
}

#[tokio::test]
async fn several_tokens_have_to_be_the_same_one() {
    let stack = stack(AuthenticateLayer::new().bearer(tokens()));
    let mut call = token("ada-t0ken");
    call.context.extensions_mut().insert(headers(&["Bearer ada-t0ken"]));
    assert_eq!(who(&stack, call.clone()).await.as_deref(), Some("ada"));
    call.context.extensions_mut().insert(parts(&["Bearer bob-t0ken"]));
    assert_eq!(challenge(&stack.run_call(call).await).error, Some("invalid_request"));
}

#[tokio::test]
async fn a_token_in_the_address_is_not_looked_for() {
    let stack = stack(AuthenticateLayer::new().bearer(tokens()));
    let (parts, ()) = Request::get("https://host/mcp?access_token=ada-t0ken&token=ada-t0ken").body(()).unwrap().into_parts();
    assert_eq!(who(&stack, call_with(parts)).await, None);
}

#[tokio::test]
async fn what_was_wrong_is_for_the_operator_alone() {
    let slow = Slow::default();
    let stack = stack(slow.layer().realm("tools").scopes(["files:read", "files:write"]));
    let (missing, invalid) = (stack.run_call(call()).await, stack.run_call(token("eve-t0ken")).await);
    assert_eq!(missing.as_text(), invalid.as_text());
    assert_eq!(refusal(&invalid).by(), "authenticate");
    assert_eq!(challenge(&missing).to_string(), r#"Bearer realm="tools", scope="files:read files:write""#);
    assert_eq!(challenge(&invalid).to_string(), r#"Bearer realm="tools", error="invalid_token""#);
    assert_eq!((challenge(&missing).status, challenge(&invalid).status), (401, 401));
    assert_eq!(refusal(&invalid).source().unwrap().to_string(), "hunter2 is not known here");
    for answer in [missing, invalid] {
        let told = format!("{answer:?} {} {}", serde_json::to_string(&answer).unwrap(), challenge(&answer));
        assert!(!told.contains("hunter2") && !told.contains("t0ken"), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_verifier_that_cannot_tell_lets_nothing_pass_and_blames_no_token() {
    let slow = Slow::default();
    let stack = stack(slow.layer().bearer(tokens()).allow_anonymous());
    let answer = stack.run_call(token("broken")).await;
    assert_eq!(refusal(&answer).kind(), RefusalKind::Internal);
    assert_eq!(refusal(&answer).bearer_challenge(), None);
    assert_eq!(refusal(&answer).source().unwrap().to_string(), "the verifier is away");
    // One that stands for nobody is no token.
    assert_eq!(refusal(&stack.run_call(token("nobody")).await).kind(), RefusalKind::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn several_verifiers_are_asked_in_turn_and_one_is_enough() {
    let slow = Slow::default();
    let both = stack(slow.layer().bearer(tokens()));
    assert_eq!(who(&both, token("bob-t0ken")).await.as_deref(), Some("bob"));
    assert_eq!(who(&both, token("ada-t0ken")).await.as_deref(), Some("ada"));
    assert_eq!(who(&both, token("eve-t0ken")).await, None);
    assert_eq!(slow.asked(), 3);
}

#[tokio::test]
async fn nothing_further_in_sees_the_token_unless_it_is_kept() {
    let seen = |context: Context| {
        let extensions = context.extensions();
        let has = |headers: Option<&http::HeaderMap>| headers.is_some_and(|headers| headers.contains_key("authorization"));
        let token = extensions.get::<BearerToken>().map_or("none", |token| token.expose()).to_owned();
        let headers = has(extensions.get::<Parts>().map(|parts| &parts.headers))
            || has(extensions.get::<Arc<Parts>>().map(|parts| &parts.headers))
            || has(extensions.get());
        format!("{token} {headers} {}", extensions.get::<u8>().unwrap())
    };
    let router = || toolstack::Router::new().tool(sync_tool_fn("who", seen));
    let layer = AuthenticateLayer::new().bearer(tokens());
    let taken = ServiceBuilder::new().layer(layer.clone()).service(router()).into_stack();
    let kept = ServiceBuilder::new().layer(layer.keep_token()).service(router()).into_stack();
    let trusting = ServiceBuilder::new().layer(AuthenticateLayer::new().trust_context().bearer(tokens())).service(router()).into_stack();

    let mut call = token("ada-t0ken");
    let extensions = call.context.extensions_mut();
    extensions.insert(7_u8);
    extensions.insert(headers(&["Bearer ada-t0ken"]));
    extensions.insert(parts(&["Bearer ada-t0ken"]));
    extensions.insert(Arc::new(parts(&["Bearer ada-t0ken"])));
    assert_eq!(taken.run_call(call.clone()).await.as_text().unwrap(), "none false 7");
    assert_eq!(kept.run_call(call.clone()).await.as_text().unwrap(), "ada-t0ken false 7");
    call.context.set_principal(Principal::new("ada"));
    assert_eq!(trusting.run_call(call).await.as_text().unwrap(), "none false 7");
}

#[test]
fn static_tokens_show_nowhere_and_the_later_of_two_counts() {
    let tokens = StaticTokens::new().token("same", Principal::new("old")).unwrap().token("same", Principal::new("new")).unwrap();
    let verified = tokens.verify_now(&BearerToken::new("same").unwrap()).unwrap().unwrap();
    assert_eq!(verified.principal.subject, "new");
    assert_eq!(StaticTokens::new().token("not a token", Principal::new("x")).unwrap_err(), BearerTokenError::Malformed);
    let layer = AuthenticateLayer::new().bearer(super::tokens());
    let shown = format!("{:?} {:?} {layer:?} {:?}", super::tokens(), BearerToken::new("ada-t0ken").unwrap(), stack(layer.clone()));
    assert!(!shown.contains("t0ken"), "{shown}");
}

proptest! {
    #[test]
    fn a_static_token_is_the_whole_text_and_nothing_else(known in proptest::collection::vec("[a-z0-9]{1,12}", 0..6), tried in "[a-z0-9]{1,12}") {
        let mut tokens = StaticTokens::new();
        for (n, text) in known.iter().enumerate() {
            tokens = tokens.token(text.as_str(), Principal::new(n.to_string())).unwrap();
        }
        for text in known.iter().chain([&tried]) {
            let found = tokens.verify_now(&BearerToken::new(text.as_str()).unwrap()).unwrap().ok();
            let right = known.iter().rposition(|other| other == text).map(|n| n.to_string());
            prop_assert_eq!(found.map(|verified| verified.principal.subject.clone()), right);
        }
    }

    #[test]
    fn no_header_does_harm_and_no_token_shows(value in proptest::collection::vec(prop_oneof![32_u8..=255, Just(9)], 0..40)) {
        let mut map = http::HeaderMap::new();
        map.insert("authorization", http::HeaderValue::from_bytes(&value).unwrap_or(http::HeaderValue::from_static("x")));
        if let Ok(Some(token)) = BearerToken::from_headers(&map) {
            prop_assert_eq!(format!("{token:?}"), "BearerToken(..)");
        }
    }
}
