use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeStruct};

use super::{ArgumentsDigest, Label, forms};
use crate::{
    error::RefusalKind,
    layer::permission::Effect,
    model::{CallId, Fingerprint, Origin, Outcome, Principal},
};

/// What is kept of one operation. No argument, no result, no claim and no token is in it, unless somebody
/// [asks for arguments](super::AuditLayer::arguments).
///
/// Its serde form is a JSON object whose names stay as they are; fields that say nothing are left out. Times are RFC 3339, durations whole
/// microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditRecord {
    /// Names the layer that made the record, in this run of the program: 16 hexadecimal digits, drawn at random.
    #[serde(with = "forms::hex64")]
    pub stream: u64,
    /// Counts the records of the stream from zero, in the order in which the operations ended. Where a number is missing, a record is lost.
    pub sequence: u64,
    /// The operation, such as `tools/call`.
    pub operation: Label,
    /// When it came, by the clock on the wall.
    #[serde(with = "forms::time")]
    pub time: SystemTime,
    /// How long it took, from the instant at which it [began](crate::model::Context::started).
    #[serde(rename = "total_us", with = "forms::micros")]
    pub total: Duration,
    /// How long it was before the tool began, for the first time: in limits, in hooks, for a person. `None` where it never began.
    #[serde(rename = "waiting_us", with = "forms::some_micros", default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Duration>,
    /// How long it was from then on. `None` where it never began.
    #[serde(rename = "running_us", with = "forms::some_micros", default, skip_serializing_if = "Option::is_none")]
    pub running: Option<Duration>,
    /// Who asked, also where that was found out further in; `None` where nobody vouched for the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<AuditPrincipal>,
    /// The conversation or transport session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Label>,
    /// Who came up with it.
    pub origin: Origin,
    /// The id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The id of the call whose tool made this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
    /// How many calls it stood inside.
    #[serde(default, skip_serializing_if = "forms::is_zero")]
    pub depth: u16,
    /// The tool, as it was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Label>,
    /// The exact definition of the tool of that name; `None` where there is none.
    #[serde(with = "forms::fingerprint", default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Where that tool comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Label>,
    /// The arguments as they came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_digest: Option<ArgumentsDigest>,
    /// The arguments that the tool got, where a layer within had changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_digest: Option<ArgumentsDigest>,
    /// The arguments that the tool got, or those that came where it never began: redacted, and only where the layer was
    /// [told to](super::AuditLayer::arguments).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<str>>,
    /// What a permission layer decided last; `None` where none was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<AuditDecision>,
    /// How it came to an end.
    pub ending: AuditEnding,
    /// What came of it: a word, as [`Outcome::as_str`] has it.
    #[serde(with = "forms::outcome")]
    pub outcome: Outcome,
    /// What sort of refusal it was, where it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalKind>,
    /// Which layer refused, or answered in the tool's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Label>,
    /// Whether it is an error, for whoever counts.
    pub is_error: bool,
    /// How many bytes of content came back: texts, data in base64, structured content. It is exact, and no estimate of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// How many tools a list had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<u64>,
    /// How often the tool began: zero if it never did, more than one if a layer within called again.
    pub attempts: u32,
    /// The id of the distributed trace: 32 hexadecimal digits.
    #[serde(with = "forms::some_hex128", default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<u128>,
}

impl AuditRecord {
    /// Names this record among those of all streams: `stream` and `sequence`, with a hyphen between them.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{:016x}-{}", self.stream, self.sequence)
    }
}

/// How an operation came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditEnding {
    /// By an answer: a result, whether or not it is an error of the tool's; a question; a task; a list.
    Answered,
    /// The caller dropped it.
    Dropped,
    /// By an error of another crate's layer.
    Failed,
    /// By a panic, which passed on outward.
    Panicked,
    /// By a refusal.
    Refused,
}

/// Who asked: subject and issuer, and nothing else that is known of them.
#[derive(Clone)]
pub struct AuditPrincipal(Arc<Principal>);

impl AuditPrincipal {
    pub(super) fn of(principal: &Arc<Principal>) -> Option<Self> {
        (!principal.is_anonymous()).then(|| Self(Arc::clone(principal)))
    }

    /// Who it is, as the issuer names it.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// Who says so.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.0.issuer.as_deref()
    }
}

impl PartialEq for AuditPrincipal {
    fn eq(&self, other: &Self) -> bool {
        self.subject() == other.subject() && self.issuer() == other.issuer()
    }
}

impl fmt::Debug for AuditPrincipal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditPrincipal").field("subject", &self.subject()).field("issuer", &self.issuer()).finish()
    }
}

impl Serialize for AuditPrincipal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("AuditPrincipal", 1 + usize::from(self.issuer().is_some()))?;
        out.serialize_field("subject", self.subject())?;
        match self.issuer() {
            Some(issuer) => out.serialize_field("issuer", issuer)?,
            None => out.skip_field("issuer")?,
        }
        out.end()
    }
}

impl<'de> Deserialize<'de> for AuditPrincipal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Written {
            subject: String,
            #[serde(default)]
            issuer: Option<String>,
        }

        let written = Written::deserialize(deserializer)?;
        let mut principal = Principal::new(written.subject);
        principal.issuer = written.issuer;
        Ok(Self(Arc::new(principal)))
    }
}

/// What a [permission layer](crate::layer::permission) decided about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditDecision {
    /// What was decided.
    pub effect: Effect,
    /// Who or what decided, as [`DecidedBy`](crate::layer::permission::DecidedBy) tells them apart: `engine`, `failure`, `grant`,
    /// `nobody`, `person`, `rule` or `unmatched`.
    pub by: Label,
    /// The id of the rule, or of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Label>,
    /// Whether it held; in [audit mode](crate::layer::PermissionLayer::audit_only) nothing does.
    pub enforced: bool,
}
