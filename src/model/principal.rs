use std::{collections::BTreeSet, time::SystemTime};

use serde::{Deserialize, Serialize};

use super::RawObject;

/// Who asks: a subject, what it may do, and what is known of how it signed in.
///
/// Only a layer or a face that verified these facts makes a principal. A call that nobody vouches for has the
/// [anonymous](Principal::anonymous) one, which has no scope at all.
///
/// ```
/// use toolstack::model::Principal;
///
/// let ada = Principal::new("ada").scope("files:read");
/// assert!(ada.has_scope("files:read") && !ada.has_scope("files:write"));
/// assert!(!Principal::anonymous().has_scope("files:read"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Principal {
    /// Who it is, as the issuer names it; empty for nobody.
    pub subject: String,
    /// Who says so (`iss` of a token), where somebody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// What it may do.
    #[serde(default)]
    pub scopes: BTreeSet<String>,
    /// The authentication context class of the sign-in (`acr`, RFC 9470).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acr: Option<String>,
    /// When the person signed in (`auth_time`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_time: Option<SystemTime>,
    /// Any other claims. `Debug` shows their names only.
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub claims: RawObject,
}

impl Principal {
    /// A principal without scopes.
    #[must_use]
    pub fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), ..Self::default() }
    }

    /// Nobody: no subject, no scope.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Whether this is nobody.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.subject.is_empty()
    }

    /// Adds a scope.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.insert(scope.into());
        self
    }

    /// Whether the principal has exactly this scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.contains(scope)
    }
}
