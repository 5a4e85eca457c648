use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::snapshot::{Snapshot, ToolStats};
use crate::tool::{Json, Tool, sync_tool_fn};

/// The calls of the window by tool, in the shape of ADR-003's `ToolTelemetry.dashboard()`.
///
/// Shares have four decimals, milliseconds two. A call that its caller dropped is counted among the calls; it is neither an error nor a
/// success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Dashboard {
    /// How many calls the window has.
    pub total_calls: u64,
    /// When it was read, after RFC 3339, in UTC.
    pub timestamp: String,
    /// The tools that were called within the window.
    pub tools: BTreeMap<String, ToolDashboard>,
}

/// The calls of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ToolDashboard {
    /// How many calls there were.
    pub calls: u64,
    /// The share of those that did not fail.
    pub success_rate: f64,
    /// The mean of how long they took.
    pub latency_avg_ms: f64,
    /// Half of them took at most so long.
    pub latency_p50_ms: f64,
    /// 95 of 100 took at most so long.
    pub latency_p95_ms: f64,
    /// 99 of 100 took at most so long.
    pub latency_p99_ms: f64,
    /// The shortest.
    pub latency_min_ms: f64,
    /// The longest.
    pub latency_max_ms: f64,
    /// How many failed.
    pub error_count: u64,
    /// The five most frequent ways to fail.
    pub top_errors: Vec<TopError>,
}

/// A way to fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TopError {
    /// The word of the [outcome](crate::model::Outcome).
    #[serde(rename = "type")]
    pub kind: String,
    /// How many failed like this.
    pub count: u64,
}

/// How many ways to fail a dashboard names.
const TOP_ERRORS: usize = 5;

impl Dashboard {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let within = snapshot.tools.iter().filter(|(_, stats)| stats.window.total() > 0);
        Self {
            total_calls: snapshot.window_calls(),
            timestamp: time(snapshot.taken),
            tools: within.map(|(name, stats)| (name.to_string(), ToolDashboard::of(stats))).collect(),
        }
    }
}

impl ToolDashboard {
    fn of(stats: &ToolStats) -> Self {
        let quantile = |share| milliseconds(stats.latency.quantile(share));
        let errors = stats.window.top_errors(TOP_ERRORS);
        Self {
            calls: stats.window.total(),
            success_rate: rounded(stats.window.success_rate(), 10_000.0),
            latency_avg_ms: milliseconds(stats.latency.mean()),
            latency_p50_ms: quantile(0.5),
            latency_p95_ms: quantile(0.95),
            latency_p99_ms: quantile(0.99),
            latency_min_ms: milliseconds(stats.latency.min()),
            latency_max_ms: milliseconds(stats.latency.max()),
            error_count: stats.window.errors(),
            top_errors: errors.into_iter().map(|(outcome, count)| TopError { kind: outcome.as_str().to_owned(), count }).collect(),
        }
    }
}

/// What `get_metrics` answers.
#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// Counts since the program began.
    runtime_metrics: Runtime,
    /// The calls of the window.
    tool_telemetry: Dashboard,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Runtime {
    since: String,
    calls: u64,
    cancelled: u64,
    in_flight: u64,
    /// How many calls ended in each way.
    outcomes: BTreeMap<String, u64>,
    tools: BTreeMap<String, RuntimeTool>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RuntimeTool {
    calls: u64,
    cancelled: u64,
    in_flight: u64,
    mean_ms: f64,
}

pub(super) fn tool(snapshot: impl Fn() -> Snapshot + Clone + Send + Sync + 'static) -> Tool {
    let answer = move || {
        let snapshot = snapshot();
        Json(Answer { runtime_metrics: Runtime::of(&snapshot), tool_telemetry: Dashboard::of(&snapshot) })
    };
    sync_tool_fn("get_metrics", answer)
        .describe("How often each tool was called, how it ended and how long it took.")
        .read_only()
        .idempotent()
        .open_world(false)
        .boxed()
}

impl Runtime {
    fn of(snapshot: &Snapshot) -> Self {
        let lifetime = snapshot.lifetime();
        Self {
            since: time(snapshot.since),
            calls: lifetime.total(),
            cancelled: lifetime.cancelled(),
            in_flight: snapshot.in_flight(),
            outcomes: lifetime.iter().map(|(outcome, count)| (outcome.as_str().to_owned(), count)).collect(),
            tools: snapshot.tools.iter().map(|(name, stats)| (name.to_string(), RuntimeTool::of(stats))).collect(),
        }
    }
}

impl RuntimeTool {
    fn of(stats: &ToolStats) -> Self {
        let calls = stats.lifetime.total();
        let mean = u128::from(calls).checked_sub(1).map(|_| stats.busy.as_nanos() / u128::from(calls));
        Self {
            calls,
            cancelled: stats.lifetime.cancelled(),
            in_flight: stats.in_flight,
            mean_ms: milliseconds(mean.map(|nanos| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))),
        }
    }
}

fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

fn milliseconds(duration: Option<Duration>) -> f64 {
    rounded(duration.unwrap_or_default().as_secs_f64() * 1_000.0, 100.0)
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
