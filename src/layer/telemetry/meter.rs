use std::time::Duration;

use opentelemetry::{
    KeyValue,
    metrics::{Histogram, Meter, UpDownCounter},
};

use super::{metrics::Metrics, places::LISTS, shard::BOUNDS};
use crate::model::Outcome;

/// The instruments of OpenTelemetry's conventions that operations are recorded by.
pub(super) struct Instruments {
    execute_tool: Histogram<f64>,
    server_operation: Histogram<f64>,
    in_flight: UpDownCounter<i64>,
}

impl Instruments {
    pub(super) fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, about: &'static str| {
            meter.f64_histogram(name).with_unit("s").with_description(about).with_boundaries(boundaries()).build()
        };
        let in_flight = meter.i64_up_down_counter("toolstack.calls.in_flight").with_unit("{call}");
        Self {
            execute_tool: seconds("gen_ai.execute_tool.duration", "How long executions of tools took"),
            server_operation: seconds("mcp.server.operation.duration", "How long MCP requests took, as the server saw them"),
            in_flight: in_flight.with_description("Calls of tools that run").build(),
        }
    }

    pub(super) fn begin(&self, place: u32) {
        if place != LISTS {
            self.in_flight.add(1, &[]);
        }
    }

    #[cold]
    pub(super) fn end(&self, metrics: &Metrics, place: u32, wire: bool, took: Duration, outcome: Outcome) {
        let mut attributes = Vec::with_capacity(4);
        if place == LISTS {
            attributes.push(KeyValue::new("mcp.method.name", "tools/list"));
        } else {
            self.in_flight.add(-1, &[]);
            attributes.push(KeyValue::new("gen_ai.operation.name", "execute_tool"));
            attributes.push(KeyValue::new("gen_ai.tool.name", metrics.label(place).to_string()));
        }
        if outcome.is_error() {
            attributes.push(KeyValue::new("error.type", outcome.as_str()));
        }
        let seconds = took.as_secs_f64();
        if place != LISTS {
            self.execute_tool.record(seconds, &attributes);
            attributes.push(KeyValue::new("mcp.method.name", "tools/call"));
        }
        if wire {
            self.server_operation.record(seconds, &attributes);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "whole milliseconds")]
fn boundaries() -> Vec<f64> {
    BOUNDS.iter().map(|nanos| (*nanos / 1_000_000) as f64 / 1_000.0).collect()
}
