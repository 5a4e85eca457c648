//! Shows an operator what happens: a span for each operation, counts and latencies by tool.
//!
//! What is counted is how a call ended, on every way to end: also when it was refused, failed, panicked, or was dropped by its caller.
//! Nothing that a model, a client or a tool wrote is in a span or a label but the names of tools that exist.
//!
//! # Example
//!
//! ```
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{Router, ServiceBuilderExt, StackExt, layer::telemetry::Metrics, model::Outcome, tool::sync_tool_fn};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let metrics = Metrics::new();
//! let stack = ServiceBuilder::new()
//!     .telemetry(&metrics)
//!     .service(Router::new().tool(sync_tool_fn("ping", || "pong")));
//!
//! stack.call_tool("ping", json!({})).await;
//! stack.call_tool("pong", json!({})).await;
//!
//! let seen = metrics.snapshot();
//! assert_eq!(seen.tools["ping"].lifetime.of(Outcome::Completed), 1);
//! assert_eq!(seen.tools["(unknown)"].lifetime.errors(), 1);
//! println!("{}", serde_json::to_string_pretty(&metrics.dashboard()).unwrap());
//! # }
//! ```
//!
//! # Spans
//!
//! A call is one span `execute_tool {tool}` with the attributes of [OpenTelemetry's conventions for generative AI and MCP][conventions]:
//! `gen_ai.operation.name`, `gen_ai.tool.name`, `gen_ai.tool.type`, `gen_ai.tool.call.id`, and those of [`WireAttributes`] where a face
//! left them. A failed one has `error.type`, which is the [outcome](crate::model::Outcome)'s word, and the status `ERROR`;
//! `toolstack.refused_by` names the layer that refused. Arguments and results are in none. A list is one span `tools/list`.
//!
//! The fields `otel.name`, `otel.kind` and `otel.status_code` are what the bridge from `tracing` to OpenTelemetry reads. Everything within
//! happens inside the span. Where a layer further out made a span for this call already, there is no second one.
//!
//! With feature `opentelemetry`, the span can continue [the trace that a client began](TelemetryLayer::remote_parents).
//!
//! # Counts
//!
//! [`Metrics`] has exact counts since it was made, beside the latencies of the last calls. [`Metrics::tool`] hands both to a model in the
//! shape of ADR-003's `get_metrics`, feature `prometheus` to a scraper, feature `opentelemetry` to [a meter](TelemetryLayer::meter).
//!
//! Labels are bounded: calls of tools that do not exist are counted under [`UNKNOWN_TOOL`], and those of more tools than
//! [there is room for](Metrics::with_bounds) under [`OTHER_TOOLS`].
//!
//! # Order
//!
//! Outermost but for [`catch_panic`](crate::layer::catch_panic): what a layer further out refuses is not seen here.
//!
//! # Refusals
//!
//! None. Where the tools cannot be learnt, calls go on and are counted as of unknown tools.
//!
//! # Cancellation
//!
//! A call that is dropped ends as `cancelled`, in the span and in the counts. The first call asks within for the catalog; one that is
//! dropped during that is counted as of an unknown tool.
//!
//! # Cost
//!
//! Two readings of the clock, and additions to counters that only this thread writes: no lock, no allocation after a thread's first call
//! of a tool. A span costs what the subscriber takes for it, and next to nothing without one.
//!
//! [conventions]: https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md

mod attributes;
mod counts;
mod dashboard;
mod latency;
mod layer;
#[cfg(feature = "opentelemetry")]
mod meter;
mod metrics;
mod places;
#[cfg(feature = "prometheus")]
mod prometheus;
#[cfg(feature = "opentelemetry")]
mod remote;
mod shard;
mod snapshot;
mod span;
mod window;

#[cfg(feature = "prometheus")]
pub use self::prometheus::Collector;
pub use self::{
    attributes::WireAttributes,
    counts::Counts,
    dashboard::{Dashboard, ToolDashboard, TopError},
    latency::Latency,
    layer::{Begun, Telemetry, TelemetryLayer},
    metrics::Metrics,
    places::{OTHER_TOOLS, UNKNOWN_TOOL},
    snapshot::{Snapshot, ToolStats},
};
