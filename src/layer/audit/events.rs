use std::{borrow::Cow, fmt};

use tracing::field;

use super::{AuditRecord, AuditSink, forms};

/// Records as events of `tracing`: of the level `INFO` and the target `toolstack::audit`, one field for each of the record's.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TracingSink;

impl TracingSink {
    /// The target of the events.
    pub const TARGET: &'static str = "toolstack::audit";

    /// Records as events.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl AuditSink for TracingSink {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("tracing")
    }

    fn record(&self, record: &AuditRecord) {
        let decision = record.decision.as_ref();
        let principal = record.principal.as_ref();
        // What came from outside is shown with its escapes, so that it cannot look like another line or another field.
        tracing::info!(
            target: TracingSink::TARGET,
            stream = %format_args!("{:016x}", record.stream),
            sequence = record.sequence,
            operation = &*record.operation,
            time = %forms::rfc3339(record.time),
            total_us = forms::whole_micros(record.total),
            waiting_us = record.waiting.map(forms::whole_micros),
            running_us = record.running.map(forms::whole_micros),
            subject = principal.map(|principal| field::debug(principal.subject())),
            issuer = principal.and_then(|principal| principal.issuer()).map(field::debug),
            session = record.session.as_ref().map(field::debug),
            origin = ?record.origin,
            call = record.call.as_ref().map(field::debug),
            parent = record.parent.as_ref().map(field::debug),
            depth = record.depth,
            tool = record.tool.as_ref().map(field::debug),
            fingerprint = record.fingerprint.map(field::display),
            source = record.source.as_ref().map(field::debug),
            arguments_digest = record.arguments_digest.map(field::display),
            effective_digest = record.effective_digest.map(field::display),
            arguments = record.arguments.as_deref(),
            decision = decision.map(|decision| field::display(decision.effect)),
            decided_by = decision.map(|decision| field::display(&decision.by)),
            ending = ?record.ending,
            outcome = record.outcome.as_str(),
            by = record.by.as_ref().map(field::debug),
            is_error = record.is_error,
            result_bytes = record.result_bytes,
            tools = record.tools,
            attempts = record.attempts,
            trace_id = record.trace_id.map(|id| field::display(Hex(id))),
        );
    }
}

struct Hex(u128);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
