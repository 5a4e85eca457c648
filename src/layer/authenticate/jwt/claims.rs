use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value};

use super::JwtError;
use crate::model::{Principal, RawObject};

/// What the claims of a token have to be.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    pub(super) issuer: String,
    /// One of these has to be among the audiences of the token.
    pub(super) audiences: BTreeSet<String>,
    pub(super) leeway: Duration,
    /// The claim that says who it is.
    pub(super) subject: String,
    pub(super) required: BTreeMap<String, Option<Value>>,
}

impl Claims {
    /// Checks the claims, and says who it is and until when.
    pub(super) fn check(&self, mut claims: Map<String, Value>, now: SystemTime) -> Result<(Principal, SystemTime), JwtError> {
        if claims.get("iss").ok_or_else(|| missing("iss"))?.as_str() != Some(&self.issuer) {
            return Err(JwtError::Issuer);
        }
        self.check_audience(claims.get("aud").ok_or_else(|| missing("aud"))?)?;
        let expires = date(&claims, "exp")?.ok_or_else(|| missing("exp"))?;
        // How far a clock may be off counts for the token at both ends.
        let expires = expires.checked_add(self.leeway).ok_or_else(|| wrong("exp"))?;
        if now >= expires {
            return Err(JwtError::Expired);
        }
        if let Some(begins) = date(&claims, "nbf")?
            && now.checked_add(self.leeway).is_none_or(|now| now < begins)
        {
            return Err(JwtError::NotYet);
        }
        for (claim, value) in &self.required {
            let found = claims.get(claim).filter(|found| !found.is_null()).ok_or_else(|| missing(claim))?;
            if value.as_ref().is_some_and(|value| value != found) {
                return Err(wrong(claim));
            }
        }
        Ok((self.principal(&mut claims)?, expires))
    }

    fn check_audience(&self, audience: &Value) -> Result<(), JwtError> {
        let ours = |audience: &str| self.audiences.contains(audience);
        let is_ours = match audience {
            Value::String(audience) => ours(audience),
            Value::Array(audiences) => {
                let texts: Option<Vec<&str>> = audiences.iter().map(Value::as_str).collect();
                texts.ok_or_else(|| wrong("aud"))?.into_iter().any(ours)
            }
            _ => return Err(wrong("aud")),
        };
        if is_ours { Ok(()) } else { Err(JwtError::Audience) }
    }

    /// Takes from the claims what a principal has a place for. The rest stays as it is.
    fn principal(&self, claims: &mut Map<String, Value>) -> Result<Principal, JwtError> {
        let auth_time = date(claims, "auth_time")?;
        claims.remove("auth_time");
        let mut principal = match claims.remove(&self.subject) {
            Some(Value::String(subject)) if !subject.is_empty() => Principal::new(subject),
            Some(_) => return Err(wrong(&self.subject)),
            None => return Err(missing(&self.subject)),
        };
        principal.issuer = Some(self.issuer.clone());
        claims.remove("iss");
        principal.auth_time = auth_time;
        principal.acr = match claims.remove("acr") {
            None | Some(Value::Null) => None,
            Some(Value::String(acr)) => Some(acr),
            Some(_) => return Err(wrong("acr")),
        };
        for claim in ["scope", "scp"] {
            if let Some(scopes) = claims.remove(claim) {
                principal.scopes.extend(scopes_of(&scopes).ok_or_else(|| wrong(claim))?);
            }
        }
        principal.claims = rest(claims);
        Ok(principal)
    }
}

/// The scopes in a text with spaces between, or in a list of texts.
fn scopes_of(scopes: &Value) -> Option<Vec<String>> {
    match scopes {
        Value::String(scopes) => Some(scopes.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect()),
        Value::Array(scopes) => scopes.iter().map(|scope| scope.as_str().filter(|scope| !scope.is_empty()).map(str::to_owned)).collect(),
        _ => None,
    }
}

fn rest(claims: &Map<String, Value>) -> RawObject {
    let mut rest = RawObject::new();
    for (claim, value) in claims {
        // What was read from JSON can be written as JSON.
        let _ = rest.insert(claim, value);
    }
    rest
}

/// A time as claims have it: seconds since 1970, with a fraction or without.
fn date(claims: &Map<String, Value>, claim: &str) -> Result<Option<SystemTime>, JwtError> {
    let Some(value) = claims.get(claim) else { return Ok(None) };
    let since = match (value.as_u64(), value.as_f64()) {
        (Some(seconds), _) => Duration::from_secs(seconds),
        (None, Some(seconds)) => Duration::try_from_secs_f64(seconds).map_err(|_| wrong(claim))?,
        (None, None) => return Err(wrong(claim)),
    };
    SystemTime::UNIX_EPOCH.checked_add(since).ok_or_else(|| wrong(claim)).map(Some)
}

fn missing(claim: &str) -> JwtError {
    JwtError::Missing(claim.to_owned())
}

fn wrong(claim: &str) -> JwtError {
    JwtError::Claim(claim.to_owned())
}
