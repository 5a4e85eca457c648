//! Runs hooks around requests: named functions that look, rewrite or refuse before and after a tool runs, in the order of registration.
//!
//! One layer holds any number of them, for what is not worth a layer of its own, is set up from a list, or is a
#![cfg_attr(feature = "process", doc = "[program](external).")]
#![cfg_attr(not(feature = "process"), doc = "program (feature `process`).")]
//! Those that decide and those that observe are different kinds: an observer can change nothing, and when it fails nothing changes.
//!
//! # Example
//!
//! ```
//! use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     RefusalKind, Router, StackExt, layer::hooks::{Halt, Hook, HooksLayer}, select::ToolSelector, tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let denied = Arc::new(AtomicU64::new(0));
//! let count = denied.clone();
//! let hooks = HooksLayer::new()
//!     .hook(Hook::before("no_resets", |_| Err(Halt::error("Resets are for Mondays."))).only(ToolSelector::new().name("reset*")?))
//!     .after("sign", |call| { call.result_mut().push("-- signed"); Ok(()) })
//!     .on_denied("count", move |_| { count.fetch_add(1, Ordering::Relaxed); });
//! let stack = ServiceBuilder::new()
//!     .layer(hooks)
//!     .service(Router::new()
//!         .tool(sync_tool_fn("ping", || "pong"))
//!         .tool(sync_tool_fn("reset_all", || "done")));
//!
//! assert_eq!(stack.call_tool("ping", json!({})).await.as_text().as_deref(), Some("pong\n-- signed"));
//!
//! let answer = stack.call_tool("reset_all", json!({})).await;
//! let refusal = answer.refusal().unwrap();
//! assert_eq!((refusal.kind(), refusal.by(), refusal.message()), (RefusalKind::Denied, "no_resets", "Resets are for Mondays."));
//! assert_eq!(denied.load(Ordering::Relaxed), 1);
//! # Ok(()) }
//! ```
//!
//! # Events
//!
//! | event | runs | may |
//! |---|---|---|
//! | [`before_request`](Hook::before_request) | before anything else, for calls and lists | hand values inward, halt |
//! | [`after_list`](Hook::after_list) | over the tools of a list; and before a call, over its one tool | take tools away, halt |
//! | [`before`](Hook::before) | before the tool runs, after what stands outside this layer | rewrite arguments, hand values inward, answer, halt |
//! | [`after`](Hook::after) | over a result, of whatever came of the call within | rewrite the result, halt |
//! | [`on_success`](Hook::on_success), [`on_error`](Hook::on_error), [`on_denied`](Hook::on_denied) | when a call is over, as it ended | nothing |
//! | [`on_finish`](Hook::on_finish) | when a call is over, once, in any case | nothing |
//!
//! A tool that an `after_list` hook takes away is in no list, and a call of it is answered as that of a tool that does not exist.
//!
//! Values that hooks hand inward are the [extensions](crate::model::Context::extensions) of the context. They belong to the one request: a
//! call that comes back with a person's answer is another one, and starts without.
//!
//! A [remark](BeforeCall::remark) of a hook for the model stands on the response of the call, whatever the response is. Where a layer of
//! another crate fails with an error there is no response: put a [`CatchErrorLayer`](super::CatchErrorLayer) within.
//!
//! # Order
//!
//! Outside of what judges arguments, such as permission and validation, which see what the hooks wrote; inside of what decides which
//! tools there are and of limits. Within the layer, the hooks of one event run in the order in which they were added, on the way in and on
//! the way out. All `before_request` hooks run before all `after_list` hooks, and these before all `before` hooks. Of two layers the outer
//! one's hooks come first on the way in and last on the way out, as with any layer.
//!
//! # Refusals
//!
//! By the name of the hook, as the [table of reasons](Halt) says. A hook that stops a request stops the later hooks on its way in and the
//! `after` hooks; observers hear of it. A hook that answers in the tool's place stops the later `before` hooks only.
//!
//! A hook fails by an error, by a panic or by taking longer than its [timeout](Hook::timeout). Then the request is refused, with
//! [`Internal`](crate::RefusalKind::Internal) before the tool ran and [`OutcomeUnknown`](crate::RefusalKind::OutcomeUnknown) after,
//! unless the hook [fails open](Hook::fail_open). Every failure is [counted](HooksLayer::failures) and logged; one of an observer changes
//! nothing. No failure is told as anybody's decision: observers of errors hear of it, and those of denials do not.
//!
//! # Cancellation
//!
//! A call that is dropped after its first hook has run ends for the observers as cancelled. Async hooks are dropped where they are.
//!
//! # Observers
//!
//! Those that hear at once do so before the caller has its answer, in order. Async ones hear in the [background](Background), after these, and
//! no answer waits for them; those of one call hear in order, those of different calls at the same time. How many at once and how many wait
//! is [bounded](HooksLayer::observing). They need a tokio runtime; where there is none they have failed.
//!
//! # Cost
//!
//! A hook that does not wait costs no allocation. An async one costs a box, and the waiting two more, for those calls that it is about.
//! The layer keeps a copy of the call for `after` hooks and observers, and none without; async observers get one of the response too. A tool
//! is looked up for hooks that are about some tools only or take tools away, or that [ask for it](BeforeCall::tool); such a call runs that
//! tool or none.
//!
//! # Compared with others
//!
//! The hooks of MCS, `pre`, `post` and `on_failure`, are `before`, `on_success` and `on_error` here; as observers they can neither change
//! the arguments nor turn a success into a failure. The events of Sake are the first four. There, a hook that halts also keeps what
//! follows from hearing of it, and none can answer in the tool's place.

mod about;
mod background;
mod event;
#[cfg(feature = "process")]
pub mod external;
mod halt;
mod hook;
mod layer;
mod observe;
mod policy;
mod run;
mod set;
mod walk;
mod when;

pub use self::{
    background::Background,
    event::{AfterCall, BeforeCall, Ended, Listed, Request},
    halt::Halt,
    hook::{Hook, HookError, Observed},
    layer::{Failures, HooksLayer},
    policy::{Hooks, Running},
    when::Event,
};
