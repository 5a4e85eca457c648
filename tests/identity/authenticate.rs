//! Who asks is found out, and what nobody vouches for does not pass.

mod context;
mod endings;
mod order;
mod remembered;
mod tokens;

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use http::HeaderMap;
use serde_json::json;
use toolstack::{
    Refusal, Router, Stack, StackExt, ToolCall, ToolResponse,
    error::BearerChallenge,
    layer::{
        AuthenticateLayer,
        authenticate::{BearerToken, StaticTokens, TokenError, Verified},
    },
    model::{Context, Principal},
    tool::sync_tool_fn,
};
use tower::ServiceBuilder;

/// A stack whose one tool says who asks, and `nobody` for nobody.
fn stack(layer: AuthenticateLayer) -> Stack {
    let who = |context: Context| match context.principal() {
        nobody if nobody.is_anonymous() => "nobody".to_owned(),
        principal => principal.subject.clone(),
    };
    ServiceBuilder::new().layer(layer).service(Router::new().tool(sync_tool_fn("who", who))).into_stack()
}

fn tokens() -> StaticTokens {
    StaticTokens::new().token("ada-t0ken", Principal::new("ada")).unwrap().token("bob-t0ken", Principal::new("bob")).unwrap()
}

fn call() -> ToolCall {
    ToolCall::new("who", json!({}))
}

fn call_with<T: Clone + Send + Sync + 'static>(value: T) -> ToolCall {
    let mut call = call();
    call.context.extensions_mut().insert(value);
    call
}

fn token(text: &str) -> ToolCall {
    call_with(BearerToken::new(text).unwrap())
}

fn headers(values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append("authorization", http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

async fn who(stack: &Stack, call: ToolCall) -> Option<String> {
    let answer = stack.run_call(call).await;
    answer.refusal().is_none().then(|| answer.as_text().unwrap().into_owned())
}

fn refusal(answer: &ToolResponse) -> &Refusal {
    answer.refusal().expect("a refusal")
}

fn challenge(answer: &ToolResponse) -> BearerChallenge {
    refusal(answer).bearer_challenge().expect("a challenge")
}

/// A verifier that takes its time, knows one token, and counts.
#[derive(Clone, Default)]
struct Slow(Arc<AtomicU32>);

impl Slow {
    fn layer(&self) -> AuthenticateLayer {
        let count = Arc::clone(&self.0);
        AuthenticateLayer::new().bearer(move |token: BearerToken| {
            let count = Arc::clone(&count);
            async move {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                match token.expose() {
                    "ada-t0ken" => Ok(Verified::new(Principal::new("ada"))),
                    "broken" => Err(TokenError::unavailable("the verifier is away")),
                    "nobody" => Ok(Verified::new(Principal::anonymous())),
                    _ => Err(TokenError::invalid("hunter2 is not known here")),
                }
            }
        })
    }

    fn asked(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
