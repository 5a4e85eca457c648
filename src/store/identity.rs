use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{model::Context, tool::ToolEntry};

/// Whose something is.
///
/// Callers whom nobody vouches for are told apart by their session, where there is one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Owner {
    /// Who it is; empty for nobody.
    pub subject: String,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The session of somebody without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

impl fmt::Debug for Owner {
    /// Of the session that there is one: whoever knows it may be able to join it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("subject", &self.subject)
            .field("issuer", &self.issuer)
            .field("session", &self.session.as_ref().map(|_| ".."))
            .finish()
    }
}

impl Owner {
    /// Whoever asks in this context.
    #[must_use]
    pub fn of(context: &Context) -> Self {
        let principal = context.principal();
        let session = if principal.is_anonymous() { context.session().map(str::to_owned) } else { None };
        Self { subject: principal.subject.clone(), issuer: principal.issuer.clone(), session }
    }
}

/// Which tool something is about: its name, where it comes from, and its exact definition. A tool that changes is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolIdentity {
    /// What callers call it by.
    pub name: String,
    /// The name of its source.
    pub source: String,
    /// Its [fingerprint](crate::model::Fingerprint), in hexadecimal.
    pub fingerprint: String,
}

impl ToolIdentity {
    /// The identity of this tool.
    #[must_use]
    pub fn of(tool: &ToolEntry) -> Self {
        Self {
            name: tool.spec().name.to_string(),
            source: tool.source().name.clone().into_owned(),
            fingerprint: tool.fingerprint().to_string(),
        }
    }
}
