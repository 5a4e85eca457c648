use serde_json::json;
use toolstack::{
    RefusalKind, Router, StackExt, ToolCall,
    layer::AuthenticateLayer,
    model::{Context, Principal},
    stack::Reentry,
    tool::{sync_tool_fn, tool_fn},
};
use tower::ServiceBuilder;

use super::{call, refusal, stack, token, tokens, who};

fn of(subject: &str) -> ToolCall {
    call().with_context(Context::new().with_principal(Principal::new(subject)))
}

/// The call of a face that says who asks, and of somebody who brings a token.
fn both(subject: &str, text: &str) -> ToolCall {
    let mut call = token(text);
    call.context.set_principal(Principal::new(subject));
    call
}

#[tokio::test]
async fn nobody_is_believed_until_a_source_is_named() {
    let closed = stack(AuthenticateLayer::new());
    for call in [call(), of("root"), token("ada-t0ken")] {
        assert_eq!(refusal(&closed.run_call(call).await).kind(), RefusalKind::Unauthenticated);
    }
}

#[tokio::test]
async fn a_principal_in_the_context_counts_only_where_it_is_trusted() {
    assert_eq!(who(&stack(AuthenticateLayer::new().bearer(tokens())), of("root")).await, None);
    assert_eq!(who(&stack(AuthenticateLayer::new().bearer(tokens())), both("root", "ada-t0ken")).await.as_deref(), Some("ada"));
    let trusting = stack(AuthenticateLayer::new().trust_context());
    assert_eq!(who(&trusting, of("root")).await.as_deref(), Some("root"));
    assert_eq!(who(&trusting, call()).await, None);
}

#[tokio::test]
async fn sources_count_in_the_order_in_which_they_are_named() {
    let context_first = stack(AuthenticateLayer::new().trust_context().bearer(tokens()));
    assert_eq!(who(&context_first, both("root", "ada-t0ken")).await.as_deref(), Some("root"));
    assert_eq!(who(&context_first, token("ada-t0ken")).await.as_deref(), Some("ada"));

    let token_first = stack(AuthenticateLayer::new().bearer(tokens()).trust_context());
    assert_eq!(who(&token_first, both("root", "ada-t0ken")).await.as_deref(), Some("ada"));
    assert_eq!(who(&token_first, of("root")).await.as_deref(), Some("root"));
    // A token that is no good is not made good by whom the context names.
    assert_eq!(who(&token_first, both("root", "eve-t0ken")).await, None);
}

#[tokio::test]
async fn nobody_passes_where_that_is_allowed_and_is_nobody_then() {
    let open = stack(AuthenticateLayer::new().bearer(tokens()).allow_anonymous());
    assert_eq!(who(&open, call()).await.as_deref(), Some("nobody"));
    assert_eq!(who(&open, of("root")).await.as_deref(), Some("nobody"));
    assert_eq!(who(&open, token("eve-t0ken")).await, None);
    assert_eq!(who(&open, token("ada-t0ken")).await.as_deref(), Some("ada"));
}

fn tools() -> Router {
    let again = async |reentry: Reentry| reentry.call_tool("who", json!({})).await.as_text().unwrap_or_default().into_owned();
    Router::new()
        .tool(sync_tool_fn("who", |context: Context| format!("{} at {}", context.principal().subject, context.depth())))
        .tool(tool_fn("again", again))
}

#[tokio::test]
async fn a_call_that_a_tool_makes_is_by_whom_the_layer_let_in() {
    let again = |call: ToolCall| ToolCall::new("again", json!({})).with_context(call.context);
    let stack = ServiceBuilder::new().layer(AuthenticateLayer::new().bearer(tokens())).service(tools()).into_stack();
    assert_eq!(stack.run_call(again(token("ada-t0ken"))).await.as_text().unwrap(), "ada at 1");

    // Also with a second layer within that believes the first.
    let inner = tools().layer(AuthenticateLayer::new().trust_context());
    let stack = ServiceBuilder::new().layer(AuthenticateLayer::new().bearer(tokens())).service(inner).into_stack();
    assert_eq!(stack.run_call(again(token("ada-t0ken"))).await.as_text().unwrap(), "ada at 1");
}

#[tokio::test]
async fn the_word_of_one_layer_is_not_that_of_another() {
    // The outer one lets in whoever the face names; the inner one wants a token all the same.
    let inner = tools().layer(AuthenticateLayer::new().bearer(tokens()));
    let stack = ServiceBuilder::new().layer(AuthenticateLayer::new().trust_context()).service(inner).into_stack();
    let answer = stack.run_call(of("root")).await;
    assert_eq!(refusal(&answer).kind(), RefusalKind::Unauthenticated);

    // And a principal that a tool makes up has nobody's word.
    let forge = async |reentry: Reentry, context: Context| {
        let mut forged = context.clone();
        forged.set_principal(Principal::new("root"));
        reentry.run_call(ToolCall::new("who", json!({})).with_context(forged)).await.as_text().unwrap_or_default().into_owned()
    };
    let router = tools().tool(tool_fn("forge", forge));
    let stack = ServiceBuilder::new().layer(AuthenticateLayer::new().bearer(tokens())).service(router).into_stack();
    let answer = stack.run_call(ToolCall::new("forge", json!({})).with_context(token("ada-t0ken").context)).await;
    assert_eq!(answer.as_text().unwrap(), "ada at 1");
}
