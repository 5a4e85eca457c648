use std::{sync::Arc, time::SystemTime};

use smol_str::SmolStr;
use tokio::time::Instant;

use super::{ArgumentsDigest, AuditPrincipal, AuditRecord, Label, label::cut};
use crate::model::{Arguments, CallId, Context, Fingerprint, Origin, Outcome, Principal, ToolName};

/// What an operation was where the layer stands. It is kept once for each, in the one allocation that there is, and becomes a record when
/// the operation is over.
pub(crate) struct Asked {
    pub(super) operation: &'static str,
    pub(super) time: SystemTime,
    pub(super) started: Instant,
    pub(super) principal: Option<Arc<Principal>>,
    pub(super) session: Option<SmolStr>,
    pub(super) origin: Origin,
    pub(super) parent: Option<CallId>,
    pub(super) depth: u16,
    pub(super) trace: Option<u128>,
    pub(super) call: Option<Called>,
    pub(crate) arguments: Arguments,
}

/// What there is of a call only.
pub(super) struct Called {
    pub(super) id: CallId,
    pub(super) tool: ToolName,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) source: Option<SmolStr>,
    pub(super) digest: ArgumentsDigest,
}

impl Asked {
    pub(super) fn new(operation: &'static str, context: &mut Context, call: Option<Called>, arguments: Arguments) -> Self {
        Self {
            operation,
            time: SystemTime::now(),
            started: context.started(),
            principal: context.shared_principal().cloned(),
            session: context.session_text().cloned(),
            origin: context.origin(),
            parent: context.parent().cloned(),
            depth: context.depth(),
            trace: context.trace().and_then(|trace| trace.id()),
            call,
            arguments,
        }
    }

    /// The record of an operation that nothing else is known of.
    pub(super) fn record(&self, stream: u64, sequence: u64) -> AuditRecord {
        let call = self.call.as_ref();
        AuditRecord {
            stream,
            sequence,
            operation: Label::word(self.operation),
            time: self.time,
            total: std::time::Duration::ZERO,
            waiting: None,
            running: None,
            principal: self.principal.as_ref().and_then(AuditPrincipal::of),
            session: self.session.as_ref().map(Label::of),
            origin: self.origin,
            call: call.map(|call| call.id.cut(cut)),
            parent: self.parent.as_ref().map(|id| id.cut(cut)),
            depth: self.depth,
            tool: call.map(|call| Label::of(call.tool.text())),
            fingerprint: call.and_then(|call| call.fingerprint),
            source: call.and_then(|call| call.source.as_ref()).map(Label::of),
            arguments_digest: call.map(|call| call.digest),
            effective_digest: None,
            arguments: None,
            decision: None,
            ending: super::AuditEnding::Dropped,
            outcome: Outcome::Cancelled,
            refusal: None,
            by: None,
            is_error: false,
            result_bytes: None,
            tools: None,
            attempts: 0,
            trace_id: self.trace,
        }
    }
}
