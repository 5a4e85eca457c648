//! The proof that exactly this call was allowed.

use std::sync::Arc;

use super::{Arguments, CallId, Principal, ToolCall, ToolName};
use crate::error::{Refusal, RefusalKind};

/// What a permission layer allowed: this registration of a tool (and with it its definition and its source), these arguments, for this
/// principal, in this call.
///
/// Only [`ToolCall::allow`] makes one, and it never leaves the process. Arguments do not change in place, so that what is kept here is
/// what was judged; a clone shares them, and is compared by a pointer.
pub(crate) struct Permit {
    serial: u64,
    arguments: Arguments,
    principal: Option<Arc<Principal>>,
    id: CallId,
}

impl Permit {
    pub(super) fn new(call: &ToolCall, serial: u64) -> Self {
        Self { serial, arguments: call.arguments.clone(), principal: call.context.shared_principal().map(Arc::clone), id: call.id.clone() }
    }

    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether the call still is what was allowed.
    pub(crate) fn holds(&self, call: &ToolCall) -> bool {
        let principal = match (&self.principal, call.context.shared_principal()) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (None, None) => true,
            _ => false,
        };
        principal && self.id == call.id && self.arguments.is_same(&call.arguments)
    }
}

/// The answer to a call that was changed after it was allowed.
#[cold]
pub(crate) fn changed(tool: &ToolName) -> Refusal {
    let message = format!("{tool} was not run: the call was changed after it had been allowed.");
    Refusal::new(RefusalKind::Denied, message).with_by("router")
}
