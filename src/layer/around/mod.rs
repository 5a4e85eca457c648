//! The machine that most layers are policies of: decide before, act after, and finish in any case.
//!
//! A [`Policy`] has two halves, either of which may be empty. [`before`](Policy::before) sees the request and lets it through, refuses
//! it, answers it, or asks to [wait](Policy::wait). [`after`](Policy::after) sees how it ended: by a response, an error, a panic or
//! because the caller dropped it. Each request that it continues ends exactly once.
//!
//! # Example
//!
//! A layer that lets nothing pass while maintenance is on:
//!
//! ```
//! use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     Refusal, RefusalKind, Router, StackExt,
//!     describe::{Duty, Note},
//!     layer::{Policy, PolicyLayer, Site, Step},
//!     operation::View,
//!     tool::sync_tool_fn,
//! };
//!
//! struct Maintenance(Arc<AtomicBool>);
//!
//! impl Policy for Maintenance {
//!     type State = ();
//!
//!     fn note(&self) -> Option<Note> {
//!         Some(Note::new("maintenance").duty(Duty::Decides))
//!     }
//!
//!     fn before(&self, request: View<'_>, _: Site<'_>) -> Step<()> {
//!         match request {
//!             View::Call(_) if self.0.load(Ordering::Relaxed) => {
//!                 Step::refuse(Refusal::new(RefusalKind::Overloaded, "Closed for maintenance.").with_by("maintenance"))
//!             }
//!             _ => Step::Pass,
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let closed = Arc::new(AtomicBool::new(false));
//! let stack = ServiceBuilder::new()
//!     .layer(PolicyLayer::new(Maintenance(closed.clone())))
//!     .service(Router::new().tool(sync_tool_fn("ping", || "pong")));
//!
//! assert!(stack.call_tool("ping", json!({})).await.is_completed());
//! closed.store(true, Ordering::Relaxed);
//! assert_eq!(stack.call_tool("ping", json!({})).await.refusal().unwrap().kind(), RefusalKind::Overloaded);
//! # }
//! ```
//!
//! # Readiness
//!
//! A policy that never waits passes the readiness of the service within on. One that may wait ([`WAITS`](Policy::WAITS),
//! [`TOOL`](Policy::TOOL)) is ready at once: while it waits it holds no permit of a limit further in, and drives readiness afterwards.
//!
//! # Cost
//!
//! The future is named; nothing is allocated unless the policy really waits.

mod future;
mod machine;
mod option;
mod policy;
mod shared;

pub use self::{
    future::ResponseFuture,
    machine::{Inner, Policed, PolicyLayer},
    policy::{Ending, Policy, Site, Step},
};
