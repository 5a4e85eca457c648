//! What a caller reads, and under which kind: a no of a rule, a no of a person, and each way in which nobody decided.

use std::time::Duration;

use serde::Serialize;

use super::{ApproverError, Opinion, Rule};
use crate::{
    error::{BoxError, Refusal, RefusalKind},
    model::{ToolName, ToolResponse},
};

/// Who refuses, in every refusal of the layer.
pub(super) const BY: &str = "permission";

fn refusal(kind: RefusalKind, message: String) -> Refusal {
    Refusal::new(kind, message).with_by(BY)
}

/// A rule says no, or no rule says yes.
pub(super) fn denied(tool: &ToolName, rule: Option<&Rule>) -> Refusal {
    let why = match rule {
        None => "no rule allows it".to_owned(),
        Some(Rule { reason: Some(reason), .. }) => reason.clone(),
        Some(rule) => format!("by the rule `{}`", rule.id),
    };
    refusal(RefusalKind::Denied, format!("Execution of '{tool}' is denied: {why}."))
}

/// The policy engine says no.
pub(super) fn denied_by_engine(tool: &ToolName, opinion: &Opinion) -> Refusal {
    let why = opinion.reason.as_deref().unwrap_or("by policy");
    refusal(RefusalKind::Denied, format!("Execution of '{tool}' is denied: {why}."))
}

/// A person says no, now or for longer.
pub(super) fn refused_by_person(tool: &ToolName, reason: Option<&str>) -> Refusal {
    let mut message = format!("User denied execution of '{tool}'.");
    if let Some(reason) = reason {
        message.push_str(" Reason: ");
        message.push_str(reason);
    }
    refusal(RefusalKind::Denied, message)
}

/// Nobody decided.
pub(super) fn undecided(tool: &ToolName, error: ApproverError, waited: Duration) -> Refusal {
    match error {
        ApproverError::Absent => refusal(
            RefusalKind::ApprovalNeeded,
            format!(
                "'{tool}' was not run: it needs a person's approval, and nobody is there to be asked. Configure an approver, or a rule that allows it."
            ),
        ),
        ApproverError::Dismissed => refusal(
            RefusalKind::ApprovalNeeded,
            format!("'{tool}' was not run: it needs a person's approval, and the question was put aside without an answer."),
        ),
        ApproverError::TooLong { most } => refusal(
            RefusalKind::ApprovalNeeded,
            format!(
                "'{tool}' was not run: it needs a person's approval, and its arguments take more than the {most} characters that a person is shown."
            ),
        ),
        ApproverError::Unreadable => refusal(
            RefusalKind::ApprovalNeeded,
            format!("'{tool}' was not run: it needs a person's approval, and its arguments are no JSON that a person could be shown."),
        ),
        ApproverError::TimedOut => refusal(
            RefusalKind::Timeout,
            format!("'{tool}' was not run: nobody answered within {} s whether it may.", waited.as_secs_f64()),
        ),
        ApproverError::Failed(source) => broken(tool, "asking for approval failed", source),
    }
}

/// The deadline passed while something else than a person was waited for.
pub(super) fn too_late(tool: &ToolName) -> Refusal {
    refusal(RefusalKind::Timeout, format!("'{tool}' was not run: its deadline passed before it was decided whether it may."))
}

/// A part of the layer is broken.
pub(super) fn broken(tool: &ToolName, what: &str, source: BoxError) -> Refusal {
    refusal(RefusalKind::Internal, format!("'{tool}' was not run: {what}. Nobody denied it, and its arguments are not the cause."))
        .with_source(source)
}

/// An approval that was brought back is none, or is for another call.
pub(super) fn not_approved(tool: &ToolName) -> Refusal {
    refusal(
        RefusalKind::Denied,
        format!("'{tool}' was not run: the approval that was brought back was never asked for, is for another call, was used, or is over."),
    )
}

/// An answer gives the call other arguments, one of which a layer further out has settled.
pub(super) fn not_to_be_edited(tool: &ToolName, argument: &str) -> Refusal {
    refusal(
        RefusalKind::Denied,
        format!(
            "'{tool}' was not run: the answer to the question of approval changes '{argument}', which was settled before it was asked."
        ),
    )
}

/// An answer that was brought back cannot be read.
pub(super) fn unreadable_answer(tool: &ToolName, why: &str) -> Refusal {
    refusal(RefusalKind::ApprovalNeeded, format!("'{tool}' was not run: the answer to the question of approval cannot be read: {why}"))
}

/// The caller gave up while somebody was asked.
pub(super) fn cancelled(tool: &ToolName) -> Refusal {
    refusal(RefusalKind::Cancelled, format!("'{tool}' was not run: the call was cancelled while it waited for approval."))
}

/// A denial in the form that MCS gives it.
///
/// ```
/// use serde_json::json;
/// use toolstack::layer::permission::DenialPayload;
///
/// let payload = DenialPayload::new("write_file", "User denied execution of 'write_file'.");
/// assert_eq!(
///     serde_json::to_string(&payload)?,
///     r#"{"permission_denied":true,"tool":"write_file","message":"User denied execution of 'write_file'."}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DenialPayload {
    /// Always true.
    pub permission_denied: bool,
    /// The tool.
    pub tool: String,
    /// What the model reads.
    pub message: String,
}

impl DenialPayload {
    /// A denial.
    #[must_use]
    pub fn new(tool: impl Into<String>, message: impl Into<String>) -> Self {
        Self { permission_denied: true, tool: tool.into(), message: message.into() }
    }

    /// The payload of a response that says that a call was denied; `None` for any other response.
    #[must_use]
    pub fn of(tool: &ToolName, response: &ToolResponse) -> Option<Self> {
        let refusal = response.refusal().filter(|refusal| refusal.kind() == RefusalKind::Denied)?;
        Some(Self::new(tool.to_string(), refusal.message()))
    }
}
