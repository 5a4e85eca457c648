//! Decides whether a tool runs: by rules, then by what a person decided before, then by asking one.
//!
//! A model calls whatever it is talked into. Rules say which calls need nobody, which need a person, and which never run; the person sees
//! the call before it happens, and what they decide is remembered no further than they want. What was allowed is what runs: the call
//! carries a permit for exactly this tool, these arguments and this principal, and the router refuses one that was changed since.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{
//!     RefusalKind, Router, StackExt,
//!     layer::permission::{Approval, ApprovalRequest, Effect, PermissionLayer, Rules},
//!     tool::sync_tool_fn,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rules = Rules::from_json(r#"{"rules":[
//!     {"id":"readers","effect":"allow","tools":{"read_only":true}},
//!     {"id":"no-reset","effect":"deny","tools":{"names":["reset"]},"reason":"it cannot be undone"}
//! ]}"#)?;
//! let stack = ServiceBuilder::new()
//!     .layer(PermissionLayer::new(rules, Effect::Ask).ask(async |request: ApprovalRequest| {
//!         Ok(if request.call.name() == "write" { Approval::once() } else { Approval::deny() })
//!     }))
//!     .service(Router::new()
//!         .tool(sync_tool_fn("ping", || "pong").read_only())
//!         .tool(sync_tool_fn("write", || "written"))
//!         .tool(sync_tool_fn("send", || "sent"))
//!         .tool(sync_tool_fn("reset", || "done")));
//!
//! assert!(stack.call_tool("ping", json!({})).await.is_completed());
//! assert!(stack.call_tool("write", json!({})).await.is_completed());
//! let sent = stack.call_tool("send", json!({})).await;
//! assert_eq!(sent.as_text().as_deref(), Some("User denied execution of 'send'."));
//! let reset = stack.call_tool("reset", json!({})).await;
//! assert_eq!(reset.refusal().unwrap().kind(), RefusalKind::Denied);
//! assert_eq!(reset.as_text().as_deref(), Some("Execution of 'reset' is denied: it cannot be undone."));
//! assert_eq!(stack.list_tools().await.names().collect::<Vec<_>>(), ["ping", "send", "write"]);
//! # Ok(()) }
//! ```
//!
//! # Rules
//!
//! A [`Rule`] has an [`Effect`], and says which tools, arguments and principals it is about. The strictest rule that is about a call
//! counts: deny before ask before allow, whatever the order of the rules. The constructor says what happens to a call that none is about:
//!
//! | rules about the call | `unmatched: Allow` | `unmatched: Ask` | `unmatched: Deny` |
//! |---|---|---|---|
//! | none | runs | asks | denied |
//! | allow | runs | runs | runs |
//! | ask, with or without allow | asks | asks | asks |
//! | deny, with or without others | denied | denied | denied |
//!
//! So a set of nothing but denials denies what it names, and leaves the rest to `unmatched`; a set of nothing but permissions allows what
//! it names; an empty set leaves everything to `unmatched`.
//!
//! Whether a rule is about a call may be [impossible to tell](Truth): the arguments are no JSON object, the one that it asks for is
//! missing or of another kind, a command is more than plain words. Then a rule that denies or asks takes effect, and one that allows does
//! not; and where nothing else is about the call, it is not let through by `unmatched: Allow`, but asked about.
//!
//! What a tool says of itself selects it for a rule only if its source is trusted
//! ([`ToolEntry::believed`](crate::tool::ToolEntry::believed)): a stranger's tool that claims to be read-only is none.
//!
//! A [`PolicyEngine`] has a say beside the rules: the stricter of the two counts.
//!
//! # Asking
//!
//! An [`Approver`] is asked while the call waits: a closure, a [`channel`](channel()), a [terminal](TerminalApprover). [`Reentry`] answers the
//! call with a question instead, and runs it when the caller comes back with the answer. An [`Approval`] allows or denies once or
//! for a time, gives other arguments, which the rules judge again, or answers in the tool's place. Other arguments that change a pinned
//! one or a session handle are refused. What is to be remembered is a
//! [`Grant`](crate::store::Grant), of one principal, for one tool as it is defined now; it is looked for only where a rule asks, and does
//! nothing against one that denies.
//!
//! # Order
//!
//! Inside whatever changes a call, so that what is judged is what runs, and inside whatever checks arguments, so that nobody is asked about
//! a call that cannot run. Outside limits, timeouts and retries: a person who thinks holds no place, is not the tool's time, and is asked
//! once. Where approvers edit, a second [`ValidateLayer`](super::ValidateLayer) stands inside: nothing further out sees the edited
//! arguments. Two of these layers are no conflict; both have to allow. A retry within repeats the call that was allowed, with its permit.
//!
//! # Refusals
//!
//! | kind | when |
//! |---|---|
//! | [`Denied`](crate::RefusalKind::Denied) | a rule, the engine or a person says no; an approval that was brought back is none; from the router, the call was changed after it was allowed; other arguments change a pinned one or a session handle |
//! | [`ApprovalNeeded`](crate::RefusalKind::ApprovalNeeded) | nobody is there to be asked (at once), the arguments are longer than what a person is shown, the question was put aside, or its answer cannot be read |
//! | [`Timeout`](crate::RefusalKind::Timeout) | nobody answered in time, or the deadline passed before a store or the engine did |
//! | [`Internal`](crate::RefusalKind::Internal) | asking failed, or the engine or a store |
//! | [`Cancelled`](crate::RefusalKind::Cancelled) | the call was cancelled while somebody was asked |
//! | [`UnknownTool`](crate::RefusalKind::UnknownTool) | there is no such tool, also where a [fallback](crate::Router::fallback) would answer: nobody can judge it |
//!
//! Each has its own text; none but a person's no says that a person denied it. [`DenialPayload`] is a denial in the form of MCS.
//!
//! A tool that is denied to this principal with any arguments is not in the list. A call of it is answered with the reason: use
//! [visibility](crate::layer::visibility) for tools whose existence is nobody's business.
//!
//! # Cancellation
//!
//! Nothing is held while somebody is asked: no lock, no place of a limit further in. Dropping the call drops the question.

mod approver;
mod argument;
#[cfg(feature = "cedar")]
mod cedar;
mod channel;
mod decide;
mod decided;
mod engine;
mod explain;
mod handle;
mod judge;
mod layer;
mod number;
mod path;
mod policy;
mod reentry;
mod refusals;
mod rule;
mod rules;
mod shell;
mod show;
mod terminal;
mod truth;

#[cfg(feature = "cedar")]
#[cfg_attr(docsrs, doc(cfg(feature = "cedar")))]
pub use self::cedar::{CedarEngine, CedarError};
pub use self::{
    approver::{Approval, ApprovalRequest, Approver, ApproverError, Decision, Remember, Scope},
    argument::ArgumentRule,
    channel::{ChannelApprover, Question, Questions, channel},
    decided::{Decided, DecidedBy},
    engine::{Opinion, PolicyEngine},
    explain::{Considered, Explanation, Standing},
    handle::PermissionHandle,
    layer::{PermissionLayer, PermissionService},
    policy::{Listed, OnSwap, Permission},
    reentry::Reentry,
    refusals::DenialPayload,
    rule::{Effect, Example, PrincipalRule, Rule},
    rules::{Rules, RulesError, UnmatchedRule},
    shell::ShellPattern,
    terminal::TerminalApprover,
    truth::{Missing, Truth},
};
