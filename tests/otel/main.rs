//! Spans and metrics as OpenTelemetry gets them: in memory, and through an exporter to a collector.
//!
//! One subscriber for the whole process, as in a program: each test looks at the spans of tools of its own.

mod capture;
mod collector;
mod metrics;
mod otlp;
mod secrets;
mod spans;
mod trace;

use std::sync::LazyLock;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing_subscriber::layer::SubscriberExt;

static SPANS: LazyLock<InMemorySpanExporter> = LazyLock::new(|| {
    let spans = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).with_simple_exporter(otlp::exporter()).build();
    let bridge = tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(capture::Capture).with(bridge))
        .expect("nobody else set one");
    spans
});

fn set_up() {
    LazyLock::force(&SPANS);
}

/// The spans of that tool that are over.
fn spans_of(tool: &str) -> Vec<SpanData> {
    let spans = SPANS.get_finished_spans().expect("the exporter works");
    spans.into_iter().filter(|span| attribute(span, "gen_ai.tool.name").as_deref() == Some(tool)).collect()
}

fn only<T>(mut all: Vec<T>) -> T {
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    span.attributes.iter().find(|attribute| attribute.key.as_str() == key).map(|attribute| attribute.value.to_string())
}
