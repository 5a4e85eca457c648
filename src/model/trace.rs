use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a call belongs in a distributed trace: the [W3C trace context][w3c], as MCP carries it in `_meta`.
///
/// The texts are kept as they came. Whoever starts spans reads `traceparent` with the care that a header from outside needs.
///
/// [w3c]: https://www.w3.org/TR/trace-context/
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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

const fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

impl fmt::Debug for TraceContext {
    /// Of what applications and vendors put in only whether there is any: they put in what they like.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContext")
            .field("traceparent", &self.traceparent)
            .field("tracestate", &self.tracestate.as_ref().map(|_| ".."))
            .field("baggage", &self.baggage.as_ref().map(|_| ".."))
            .finish()
    }
}

impl TraceContext {
    /// A trace context with this `traceparent`.
    #[must_use]
    pub fn new(traceparent: impl Into<String>) -> Self {
        Self { traceparent: Some(traceparent.into()), ..Self::default() }
    }

    /// The trace id in `traceparent`, where that is what the standard wants: of a later version, what this one knows of it.
    pub(crate) fn id(&self) -> Option<u128> {
        let mut parts = self.traceparent.as_deref()?.split('-');
        let mut part = |length: usize| parts.next().filter(|part| part.len() == length && part.bytes().all(is_hex));
        let (version, trace, span, _flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let rest = parts.next().is_some();
        if version == "ff" || (version == "00" && rest) || span.bytes().all(|digit| digit == b'0') {
            return None;
        }
        u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_id_is_read_from_what_the_standard_wants_and_from_nothing_else() {
        let id = |text: &str| TraceContext::new(text).id();
        let trace = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
        assert_eq!(id("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), Some(trace));
        assert_eq!(id("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes-later"), Some(trace));
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        ] {
            assert_eq!(id(text), None, "{text}");
        }
    }
}
