//! Keeps a record of each operation: who asked, for what, what was decided, what came of it, and how long it took.
//!
//! A log of what a model did is worth what it leaves out: calls that were refused, that failed, that nobody waited for, that panicked. Here
//! every operation that comes to the layer has exactly one record, however it ends, and what could not be written leaves a gap that can be
//! seen.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     RefusalKind, Router, ServiceBuilderExt, StackExt,
//!     layer::{audit::{AuditEnding, channel}, permission::{Effect, Rules}},
//!     tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (sink, mut records) = channel(1024);
//! let rules = r#"{"rules":[{"id":"no-resets","effect":"deny","tools":{"names":["reset"]}}]}"#;
//! let stack = ServiceBuilder::new()
//!     .catch_panic()
//!     .audit(sink)
//!     .permission(Rules::from_json(rules)?, Effect::Allow)
//!     .service(Router::new().tool(sync_tool_fn("ping", || "pong")).tool(sync_tool_fn("reset", || "done")));
//!
//! stack.call_tool("ping", json!({})).await;
//! let entry = records.recv().await.unwrap();
//! let ping = entry.record().unwrap();
//! assert_eq!((ping.ending, ping.result_bytes, ping.attempts), (AuditEnding::Answered, Some(4), 1));
//!
//! stack.call_tool("reset", json!({ "password": "hunter2" })).await;
//! let entry = records.recv().await.unwrap();
//! let reset = entry.record().unwrap();
//! assert_eq!((reset.refusal, reset.by.as_deref()), (Some(RefusalKind::Denied), Some("permission")));
//! assert_eq!(reset.decision.as_ref().unwrap().id.as_deref(), Some("no-resets"));
//! assert!(!serde_json::to_string(reset)?.contains("hunter2"));
//! # Ok(()) }
//! ```
//!
//! # Records
//!
//! An [`AuditRecord`] names the arguments by a [digest](ArgumentsDigest), and has no text of theirs, of a result, of a claim or of a token.
//! [`AuditLayer::arguments`] adds the arguments as a redactor shows them. The session of the context is there as it is: where a session id
//! lets somebody in, treat records as what they name.
//!
//! What layers further in find out is in the record too: the principal and the trace, where one sets them in the context; what a
//! [permission layer](super::permission) decided; when the tool began, and with which arguments, where the router that runs it is one of
//! this crate's.
//!
//! # Sinks
//!
//! | sink | writes |
//! |---|---|
//! | [`channel`](channel()) | to a task of yours |
//! | [`JsonLines`] | JSON lines to a [file](AuditFile) that is followed by another when it is full or old, or to any `Write` |
//! | [`TracingSink`] | events of `tracing` |
//! | an [`AuditSink`] | wherever you like; a closure is one |
//!
//! A sink that is slow or broken neither holds a call up nor loses records silently: the queue to it is bounded, what does not fit is
//! counted, a [loss](AuditLoss) stands in the stream where the records would have stood, and an [`AuditHandle`] tells how many were
//! written and lost. Where nothing may run without a record, [`required`](AuditLayer::required) refuses what there is no room for, before
//! it runs.
//!
//! # Order
//!
//! Outside everything that refuses, so that there is a record of what it refuses, and outside everything that rewrites, so that the record
//! has what was asked. Inside [`catch_panic`](super::catch_panic); inside or outside telemetry. Outside
//! [redaction](super::redact) no secret could get in either way.
//!
//! # Refusals
//!
//! None, unless [`required`](AuditLayer::required): [`Overloaded`](crate::RefusalKind::Overloaded), if a sink has no room, is closed, or fails to
//! write.
//! That is recorded wherever there is room.
//!
//! # Cancellation
//!
//! A request that is dropped has its record, also if it was never polled. Where the process ends in the middle of a call, there is none:
//! records are made when operations end.
//!
//! # Cost
//!
//! One allocation for each operation, and one more where a rule, a source or a layer that refuses has a name of more than 23 bytes. The clock
//! is read four times, and the arguments are hashed once, without a copy of them unless they hold escapes.

mod asked;
mod channel;
mod digest;
mod events;
mod file;
mod forms;
mod handle;
mod label;
mod layer;
mod lines;
mod policy;
mod queue;
mod record;
mod sink;
mod size;

pub(crate) use self::asked::Asked;
pub use self::{
    channel::{AuditReceiver, ChannelSink, channel},
    digest::{ArgumentsDigest, NoDigest},
    events::TracingSink,
    file::AuditFile,
    handle::{AuditEntry, AuditHandle, AuditLoss},
    label::Label,
    layer::{Audit, AuditLayer},
    lines::{JsonLines, JsonLinesSink},
    policy::{AuditPolicy, Started},
    record::{AuditDecision, AuditEnding, AuditPrincipal, AuditRecord},
    sink::AuditSink,
};
