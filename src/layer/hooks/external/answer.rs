use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::exact;

/// What a program is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[allow(clippy::enum_variant_names, reason = "the names are Claude Code's")]
#[non_exhaustive]
pub enum ExternalEvent {
    /// A call, before its tool runs.
    PreToolUse,
    /// The result of a call.
    PostToolUse,
}

/// What a program decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decision {
    /// Nothing against it.
    Allow,
    /// A person has to approve.
    Ask,
    /// The call does not run, or its result is not given.
    Deny,
}

/// What a program answered.
#[derive(Clone)]
#[non_exhaustive]
pub struct Answer {
    /// What it decides.
    pub decision: Decision,
    /// Why, for the model. Bounded, and without control characters.
    pub reason: Option<String>,
    /// Other arguments: a JSON object, bit for bit as the program wrote it.
    pub updated_input: Option<Box<RawValue>>,
    /// A remark for the model.
    pub context: Option<String>,
}

impl fmt::Debug for Answer {
    /// What it decides; of the texts and arguments whether there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("decision", &self.decision)
            .field("reason", &self.reason.as_ref().map(|_| ".."))
            .field("updated_input", &self.updated_input.as_ref().map(|_| ".."))
            .field("context", &self.context.as_ref().map(|_| ".."))
            .finish()
    }
}

/// Why an answer is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// It is not the object that it has to be.
    #[error("it cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A known field is where it means nothing.
    #[error("`{field}` stands {place}, where it means nothing")]
    #[non_exhaustive]
    Misplaced {
        /// The field.
        field: &'static str,
        /// Where.
        place: &'static str,
    },
    /// Something that has to be said is not.
    #[error("`{field}` is missing")]
    #[non_exhaustive]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// It is about something else.
    #[error("it is about another event than the one that was asked about")]
    OtherEvent,
    /// A word that is none of those that there are.
    #[error("`{field}` is a word that nobody knows")]
    #[non_exhaustive]
    UnknownWord {
        /// The field.
        field: &'static str,
    },
    /// Something that has to be an object, with every key once, is not.
    #[error("`{field}` is not an object, or has a key twice")]
    #[non_exhaustive]
    NotAnObject {
        /// The field.
        field: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Top<'a> {
    #[serde(borrow)]
    hook_specific_output: &'a RawValue,
    decision: Option<String>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Output<'a> {
    hook_event_name: String,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    #[serde(borrow)]
    updated_input: Option<&'a RawValue>,
    additional_context: Option<String>,
}

impl Answer {
    /// Reads what a program wrote. Strict: what is not understood is an error, and never taken for an answer of any kind.
    ///
    /// ```
    /// use toolstack::layer::hooks::external::{Answer, Decision, ExternalEvent::PreToolUse};
    ///
    /// let answer = br#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask"}}"#;
    /// assert_eq!(Answer::parse(PreToolUse, answer)?.decision, Decision::Ask);
    /// assert!(Answer::parse(PreToolUse, b"{}").is_err());
    /// assert!(Answer::parse(PreToolUse, br#"{"permissionDecision":"deny"}"#).is_err());
    /// # Ok::<(), toolstack::layer::hooks::external::AnswerError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it is anything but one object of the form that is described in the [module](super).
    pub fn parse(event: ExternalEvent, stdout: &[u8]) -> Result<Self, AnswerError> {
        if stdout.trim_ascii().is_empty() {
            return Err(AnswerError::Empty);
        }
        // Serde would also fill a struct from an array, by position.
        let top: &RawValue = serde_json::from_slice(stdout)?;
        let top: Top<'_> = object(top, "the answer")?;
        let output: Output<'_> = object(top.hook_specific_output, "hookSpecificOutput")?;
        match (event, output.hook_event_name.as_str()) {
            (ExternalEvent::PreToolUse, "PreToolUse") => Self::before(top.decision.as_deref(), top.reason.as_deref(), output),
            (ExternalEvent::PostToolUse, "PostToolUse") => Self::after(top.decision.as_deref(), top.reason.as_deref(), output),
            (_, "PreToolUse" | "PostToolUse") => Err(AnswerError::OtherEvent),
            _ => Err(AnswerError::UnknownWord { field: "hookEventName" }),
        }
    }

    fn before(decision: Option<&str>, reason: Option<&str>, output: Output<'_>) -> Result<Self, AnswerError> {
        absent(decision.is_none(), "decision", "beside a PreToolUse answer")?;
        absent(reason.is_none(), "reason", "beside a PreToolUse answer")?;
        let decision = match output.permission_decision.as_deref() {
            Some("allow") => Decision::Allow,
            Some("ask") => Decision::Ask,
            Some("deny") => Decision::Deny,
            Some(_) => return Err(AnswerError::UnknownWord { field: "permissionDecision" }),
            None => return Err(AnswerError::Missing { field: "permissionDecision" }),
        };
        absent(output.updated_input.is_none() || decision == Decision::Allow, "updatedInput", "beside a call that does not run")?;
        let updated_input = match output.updated_input {
            None => None,
            Some(input) => Some(exact::object(input.get()).ok_or(AnswerError::NotAnObject { field: "updatedInput" })?.to_owned()),
        };
        Ok(Self {
            decision,
            reason: output.permission_decision_reason.and_then(|reason| readable(&reason)),
            updated_input,
            context: output.additional_context.and_then(|context| readable(&context)),
        })
    }

    fn after(decision: Option<&str>, reason: Option<&str>, output: Output<'_>) -> Result<Self, AnswerError> {
        const PLACE: &str = "in a PostToolUse answer";
        absent(output.permission_decision.is_none(), "permissionDecision", PLACE)?;
        absent(output.permission_decision_reason.is_none(), "permissionDecisionReason", PLACE)?;
        absent(output.updated_input.is_none(), "updatedInput", PLACE)?;
        let decision = match (decision, reason) {
            (None, None) => Decision::Allow,
            (None, Some(_)) => return Err(AnswerError::Misplaced { field: "reason", place: "without a decision" }),
            (Some("block"), Some(_)) => Decision::Deny,
            (Some("block"), None) => return Err(AnswerError::Missing { field: "reason" }),
            (Some(_), _) => return Err(AnswerError::UnknownWord { field: "decision" }),
        };
        Ok(Self {
            decision,
            reason: reason.and_then(readable),
            updated_input: None,
            context: output.additional_context.and_then(|context| readable(&context)),
        })
    }

    /// What exit code 2 says.
    pub(super) fn blocked(stderr: &[u8]) -> Self {
        Self { decision: Decision::Deny, reason: readable(&String::from_utf8_lossy(stderr)), updated_input: None, context: None }
    }
}

fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue, field: &'static str) -> Result<T, AnswerError> {
    if !exact::is_object(raw) {
        return Err(AnswerError::NotAnObject { field });
    }
    Ok(serde_json::from_str(raw.get())?)
}

const fn absent(holds: bool, field: &'static str, place: &'static str) -> Result<(), AnswerError> {
    if holds { Ok(()) } else { Err(AnswerError::Misplaced { field, place }) }
}

/// A text for the model: bounded, without control characters; `None` if nothing is left of it.
fn readable(text: &str) -> Option<String> {
    const LONGEST: usize = 4096;
    let clean: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).take(LONGEST).collect();
    let clean = clean.trim();
    (!clean.is_empty()).then(|| clean.to_owned())
}
