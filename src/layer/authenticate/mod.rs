//! Finds out who asks, and refuses operations that nobody vouches for.
//!
//! What a caller may see and do, whose sessions and grants are whose, and what a record says of who it was all hang on the principal.
//! This layer is where it comes from: a bearer token that a verifier vouches for, or, where the layer is told to believe it, the principal
//! that a face put into the context. Everything further in reads [`Context::principal`](crate::model::Context::principal) and need not
//! know how that was found out.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     RefusalKind, Router, StackExt, ToolCall,
//!     layer::{AuthenticateLayer, authenticate::{BearerToken, StaticTokens}},
//!     model::{Context, Principal},
//!     tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tokens = StaticTokens::new().token("t0ken", Principal::new("ci").scope("files:read"))?;
//! let stack = ServiceBuilder::new()
//!     .layer(AuthenticateLayer::new().bearer(tokens))
//!     .service(Router::new().tool(sync_tool_fn("who", |context: Context| context.principal().subject.clone())));
//!
//! let call = |token: &str| {
//!     let mut call = ToolCall::new("who", json!({}));
//!     call.context.extensions_mut().insert(BearerToken::new(token).unwrap());
//!     call
//! };
//! assert_eq!(stack.run_call(call("t0ken")).await.as_text().as_deref(), Some("ci"));
//! assert_eq!(stack.run_call(call("other")).await.refusal().unwrap().kind(), RefusalKind::Unauthenticated);
//! assert!(stack.list_tools().await.refusal().is_some());
//! # Ok(()) }
//! ```
//!
//! # Where the token comes from
//!
//! From the context's extensions: a [`BearerToken`], or [`http::request::Parts`], an `Arc` of them, or [`http::HeaderMap`] as a face over
//! HTTP has them. There has to be exactly one `Authorization` header, in the scheme `Bearer` (RFC 6750); a token in the query of an
//! address is never looked for. Once it was verified the token and the header are taken out of the context, so that no tool passes them
//! on; [`keep_token`](AuthenticateLayer::keep_token) leaves the token for what exchanges it.
//!
//! A principal that is in the context is overwritten unless the layer [trusts](AuthenticateLayer::trust_context) it. A call that a tool
//! makes through its stack keeps the principal that this layer vouched for. Where another layer has been [put in its
//! place](super::reload()) meanwhile, that one has not vouched for anybody yet, and refuses such a call unless it trusts the context.
//!
//! # Order
//!
//! Outside whatever asks who it is: visibility, limits by principal, sessions, [scopes](super::scopes), [step-up](super::step_up),
//! permission. Inside what records every operation, so that a refused one is recorded too.
//!
//! # Readiness
//!
//! Ready at once; what is within is driven to ready after the token was verified. A token that is [remembered](AuthenticateLayer::remember)
//! or that a verifier knows by heart takes no waiting.
//!
//! # Refusals
//!
//! | kind | when |
//! |---|---|
//! | [`Unauthenticated`](crate::RefusalKind::Unauthenticated) | no token, or one that is no good, in the same words; [`bearer_challenge`](crate::Refusal::bearer_challenge) tells a face over HTTP which of the two |
//! | [`Internal`](crate::RefusalKind::Internal) | a verifier could not tell, for instance without its keys; nothing passes |
//!
//! Why a token was no good is the source of the refusal, for the operator. Neither message nor source holds the token.
//!
//! # Cancellation
//!
//! Dropping the operation drops the verifier's future. Nothing is held.
//!
//! # Cost
//!
//! A remembered token costs a SHA-256 of it, a look-up and a change of the context.

mod bearer;
#[cfg(feature = "jwt")]
#[cfg_attr(docsrs, doc(cfg(feature = "jwt")))]
pub mod jwt;
mod layer;
mod policy;
mod remembered;
mod static_tokens;
mod verifier;

pub use self::{
    bearer::{BearerToken, BearerTokenError},
    layer::{AuthenticateLayer, AuthenticateService},
    policy::Authenticate,
    static_tokens::StaticTokens,
    verifier::{TokenError, TokenVerifier, Verified},
};

const NAME: &str = "authenticate";
