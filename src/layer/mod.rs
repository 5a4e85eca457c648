//! The layers, and the machine that most of them are policies of.
//!
//! # Order
//!
//! Outermost first, as [`ServiceBuilder`](tower::ServiceBuilder) takes them. What stands outside sees a call earlier and its result
//! later.
//!
//! | layer | does | why there |
//! |---|---|---|
//! | [`CatchPanicLayer`] | turns a panic into a refusal | so that every other layer's panic is caught, and observers within still finish |
//! | [`AuditLayer`] | keeps a record of each operation, however it ends | outside whatever refuses or rewrites |
//! | [`TelemetryLayer`] | makes a span of each operation and counts it | outside whatever refuses, so that it sees what was refused |
//! | [`RedactLayer`] | hides secrets in results | outside whatever else changes results |
//! | [`CatchErrorLayer`] | turns errors of other crates' layers into refusals | outside all layers whose errors it should catch |
//! | [`AuthenticateLayer`] | finds out who asks | outside whatever asks who it is |
//! | [`VisibilityLayer`] | decides which tools there are for this caller | outside whatever would tell of a hidden tool by treating it otherwise |
//! | [`ScopesLayer`] | requires the scopes that a tool needs | inside what finds out who asks, and inside visibility |
//! | [`map_call`] | changes calls | outside whatever judges a call; one that renames, outside visibility too, since no tool runs but the one that was judged |
//! | [`HooksLayer`] | runs hooks: functions and programs that look, rewrite or refuse | inside visibility and limits, outside whatever judges arguments |
//! | [`PinLayer`] | sets arguments that the model may not choose, in calls and in lists | outside whatever judges a call |
//! | [`SessionLayer`] | resolves and holds the sessions that a call names | inside what finds out who asks, outside permission |
//! | [`ValidateLayer`], [`RequireFieldsLayer`] | check arguments, and structured results | inside whatever changes arguments, outside whatever asks a person |
//! | [`StepUpLayer`] | asks for a stronger or more recent sign-in | inside whatever changes or checks arguments, outside whatever asks a person |
//! | [`reload`](reload()) | swaps the layer in its place | as that layer |
//! | [`gate`], [`gate_async`], [`gate_tool`] | decide whether a tool runs | inside whatever changes the call |
//! | [`PermissionLayer`] | decides whether a tool runs, by rules, remembered answers, or a person | inside whatever changes or checks the call; outside whatever holds a place or counts the time while a person thinks |
//! | [`TimeoutLayer`] | bounds how long a call takes | inside whatever waits for a person, outside whatever waits for capacity |
//! | tower's `load_shed`, `concurrency_limit`, … | bound how many calls run | next to the tools; `load_shed` directly outside the limit that it watches |
//! | [`ChallengeLayer`] | gets a credential for a tool that asks for one and calls once more, or tells the model how to sign in | next to the router, inside whatever decides, bounds or counts, so that both attempts are one call |
//! | [`map_result`], [`map_list`] | change what comes back | outside whatever should see it unchanged |
//!
//! [`lint`](crate::StackExt::lint) finds an order that breaks one of these reasons.
//!
//! # Layers of other crates
//!
//! A layer that is generic over the request goes straight into the stack: tower's timeout, limits, load shed and all that maps. One that
//! fixes its request type (tower's buffer, retry and filter) goes into [`calls`](calls()), and sees tool calls only.
//! [`named`](named()) labels one for [`describe`](crate::describe).
//!
//! # Writing one
//!
//! In three steps of effort: [`from_fn`](crate::middleware::from_fn) for a function around a call, a [`Policy`] for anything with
//! state, readiness and observers to be right, and a `Service` of your own. The [contract](crate::testing) tests all three.

pub mod again;
pub mod around;
pub mod audit;
pub mod authenticate;
pub mod calls;
pub mod catch_error;
pub mod catch_panic;
pub mod challenge;
pub mod closures;
pub mod hooks;
pub mod named;
mod per_tool;
pub mod permission;
pub mod redact;
pub mod reload;
pub mod scopes;
pub mod session;
pub mod step_up;
pub mod telemetry;
pub mod timeout;
pub mod validate;
pub mod visibility;
mod wall_clock;

pub use self::{
    around::{Ending, Policy, PolicyLayer, Site, Step},
    audit::AuditLayer,
    authenticate::AuthenticateLayer,
    calls::{CallsLayer, calls},
    catch_error::CatchErrorLayer,
    catch_panic::CatchPanicLayer,
    challenge::ChallengeLayer,
    closures::{after, gate, gate_async, gate_tool, map_call, map_list, map_result},
    hooks::{Hook, HooksLayer},
    named::{NamedLayer, named},
    permission::PermissionLayer,
    redact::RedactLayer,
    reload::{ReloadHandle, ReloadLayer, reload},
    scopes::ScopesLayer,
    session::{PinLayer, SessionLayer},
    step_up::StepUpLayer,
    telemetry::TelemetryLayer,
    timeout::TimeoutLayer,
    validate::{RequireFieldsLayer, ValidateLayer},
    visibility::VisibilityLayer,
};
