//! Telemetry: what is counted, and how long it took.

mod counting;
mod dashboard;
mod latency;
mod order;
#[cfg(feature = "prometheus")]
mod prometheus;
