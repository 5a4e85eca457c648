//! Requires that a caller has the scopes that a tool needs.
//!
//! A token says what its holder may do, and a server that does not look at that lets a token for reading write. Which scopes a tool needs
//! is said here by name, pattern or tag, or by the tool itself with a tag such as `scope:files:write`. A caller who lacks some is told all
//! that are needed in one answer, so that one step to the authorization server is enough.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     RefusalKind, Router, StackExt, ToolCall,
//!     layer::{ScopesLayer, scopes::ScopeRules},
//!     model::{Context, Principal},
//!     tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rules = ScopeRules::new()
//!     .named("files.*", ["files:read"])?
//!     .implies("admin", ["files:write"])
//!     .implies("files:write", ["files:read"]);
//! let stack = ServiceBuilder::new().layer(ScopesLayer::new(rules)).service(
//!     Router::new()
//!         .tool(sync_tool_fn("files.list", || "a b"))
//!         .tool(sync_tool_fn("files.write", || "done").tag("scope:files:write")),
//! );
//!
//! let call = |name: &str, scope: &str| {
//!     let context = Context::new().with_principal(Principal::new("ada").scope(scope));
//!     stack.run_call(ToolCall::new(name, json!({})).with_context(context))
//! };
//! assert!(call("files.list", "files:read").await.is_completed());
//! assert!(call("files.write", "admin").await.is_completed());
//!
//! let refused = call("files.write", "files:read").await;
//! assert_eq!(refused.refusal().unwrap().kind(), RefusalKind::InsufficientScope);
//! assert_eq!(refused.as_text().as_deref(), Some("The caller lacks a scope; needed: files:write."));
//! let challenge = refused.refusal().unwrap().bearer_challenge().unwrap();
//! assert_eq!(challenge.to_string(), r#"Bearer error="insufficient_scope", scope="files:read files:write""#);
//! # Ok(()) }
//! ```
//!
//! # Order
//!
//! Inside what finds out [who asks](super::authenticate) and inside visibility; outside whatever costs something. It goes by what tool it
//! is and never by arguments, so it may stand outside what changes these.
//!
//! # Readiness
//!
//! Ready at once; the first request asks what is within for its tools.
//!
//! # Refusals
//!
//! | kind | when |
//! |---|---|
//! | [`InsufficientScope`](crate::RefusalKind::InsufficientScope) | a scope is missing; the message names all that are, the challenge all that are needed |
//! | [`Unauthenticated`](crate::RefusalKind::Unauthenticated) | scopes are needed, and nobody vouches for the caller |
//! | [`Denied`](crate::RefusalKind::Denied) | the tool is forbidden: no scope would help |
//!
//! [`halt_reason`](crate::error::halt_reason) writes them in the words of Sake, [`bearer_challenge`](crate::Refusal::bearer_challenge) as
//! a face over HTTP does.
//!
//! # Cancellation
//!
//! Holds nothing.
//!
//! # Cost
//!
//! What a tool needs is worked out once. A call costs a look-up, and one more for each scope.

mod layer;
mod rules;

pub use self::{
    layer::{Scopes, ScopesLayer, ScopesService},
    rules::{ScopeRule, ScopeRules},
};

const NAME: &str = "scopes";
