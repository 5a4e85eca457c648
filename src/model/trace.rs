use serde::{Deserialize, Serialize};

/// Where a call belongs in a distributed trace: the [W3C trace context][w3c], as MCP carries it in `_meta`.
///
/// The texts are kept as they came. Whoever starts spans reads `traceparent` with the care that a header from outside needs.
///
/// [w3c]: https://www.w3.org/TR/trace-context/
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TraceContext {
    /// Version, trace id, parent span id and flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// What vendors add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// Values that travel along ([W3C baggage](https://www.w3.org/TR/baggage/)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baggage: Option<String>,
}

impl TraceContext {
    /// A trace context with this `traceparent`.
    #[must_use]
    pub fn new(traceparent: impl Into<String>) -> Self {
        Self { traceparent: Some(traceparent.into()), ..Self::default() }
    }
}
