use std::fmt;

use prometheus_client::{
    collector::Collector as Collects,
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use super::{
    metrics::Metrics,
    snapshot::{Snapshot, ToolStats},
};

/// Shows [`Metrics`] to a `prometheus_client` registry of your own.
///
/// | metric | type | labels |
/// |---|---|---|
/// | `toolstack_calls_total` | counter | `tool`, `outcome` |
/// | `toolstack_calls_in_flight` | gauge | `tool` |
/// | `toolstack_call_duration_seconds` | histogram | `tool` |
/// | `toolstack_lists_total` | counter | `outcome` |
#[derive(Clone, Debug)]
pub struct Collector(Metrics);

impl Metrics {
    /// What was counted, as [OpenMetrics text](https://prometheus.io/docs/specs/om/open_metrics_spec/), of the content type
    /// `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.collector()));
        let mut out = String::new();
        // Writing to a text does not fail.
        let _ = text::encode(&mut out, &registry);
        out
    }

    /// For a registry of your own.
    #[must_use]
    pub fn collector(&self) -> Collector {
        Collector(self.clone())
    }
}

impl Collects for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = self.0.snapshot();
        calls(&snapshot, &mut encoder)?;
        in_flight(&snapshot, &mut encoder)?;
        durations(&snapshot, &mut encoder)?;
        lists(&snapshot, &mut encoder)
    }
}

fn calls(snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut family = encoder.encode_descriptor("toolstack_calls", "Calls of tools that ended", None, MetricType::Counter)?;
    for (tool, stats) in &snapshot.tools {
        for (outcome, count) in stats.lifetime.iter() {
            ConstCounter::new(count).encode(family.encode_family(&[("tool", tool.as_str()), ("outcome", outcome.as_str())])?)?;
        }
    }
    Ok(())
}

fn in_flight(snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut family = encoder.encode_descriptor("toolstack_calls_in_flight", "Calls of tools that run", None, MetricType::Gauge)?;
    for (tool, stats) in &snapshot.tools {
        let running = i64::try_from(stats.in_flight).unwrap_or(i64::MAX);
        ConstGauge::new(running).encode(family.encode_family(&[("tool", tool.as_str())])?)?;
    }
    Ok(())
}

fn durations(snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "How long calls of tools took";
    let mut family = encoder.encode_descriptor("toolstack_call_duration", help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (tool, stats) in &snapshot.tools {
        let (sum, count) = (stats.busy.as_secs_f64(), stats.durations().map(|(_, count)| count).sum());
        family.encode_family(&[("tool", tool.as_str())])?.encode_histogram::<NoLabelSet>(sum, count, &buckets(stats), None)?;
    }
    Ok(())
}

fn lists(snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut family = encoder.encode_descriptor("toolstack_lists", "Lists of tools that ended", None, MetricType::Counter)?;
    for (outcome, count) in snapshot.lists.lifetime.iter() {
        ConstCounter::new(count).encode(family.encode_family(&[("outcome", outcome.as_str())])?)?;
    }
    Ok(())
}

/// The buckets with their upper bounds in seconds.
fn buckets(stats: &ToolStats) -> Vec<(f64, u64)> {
    stats.durations().map(|(bound, count)| (bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64()), count)).collect()
}
