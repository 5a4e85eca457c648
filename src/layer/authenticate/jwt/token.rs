use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use super::JwtError;
use crate::model::strict;

/// A token in its parts, none of which is believed yet.
pub(super) struct Parts<'a> {
    /// The algorithm that the header names.
    pub(super) algorithm: String,
    /// The key that it names.
    pub(super) key: Option<String>,
    /// What kind of token it says it is.
    pub(super) kind: Option<String>,
    /// What is signed.
    pub(super) message: &'a str,
    /// The claims, still encoded: nobody reads them before the signature is known to be good.
    claims: &'a str,
    pub(super) signature: Vec<u8>,
}

/// The longest name of a key that is looked up, in bytes.
const LONGEST_KEY_ID: usize = 256;

impl<'a> Parts<'a> {
    /// Takes a token apart. Whatever in the header says where a key is (`jku`, `x5u`, `jwk`, `x5c`) is not read.
    pub(super) fn of(token: &'a str) -> Result<Self, JwtError> {
        let mut parts = token.split('.');
        let (Some(header), Some(claims), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err(JwtError::Malformed("it has not three parts"));
        };
        if header.is_empty() || claims.is_empty() || signature.is_empty() {
            return Err(JwtError::Malformed("a part of it is empty"));
        }
        let message = &token[..header.len() + 1 + claims.len()];
        let header = object(header)?;
        if header.contains_key("crit") || header.contains_key("b64") {
            return Err(JwtError::Critical);
        }
        let text = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(JwtError::Malformed("its header has a field of the wrong kind")),
        };
        let key = text("kid")?;
        if key.as_ref().is_some_and(|key| key.len() > LONGEST_KEY_ID) {
            return Err(JwtError::Key);
        }
        Ok(Self {
            algorithm: text("alg")?.ok_or(JwtError::Algorithm)?,
            key,
            kind: text("typ")?,
            message,
            claims,
            signature: decode(signature)?,
        })
    }

    /// The claims, which are worth something once the signature is good.
    pub(super) fn claims(&self) -> Result<Map<String, Value>, JwtError> {
        object(self.claims)
    }
}

fn decode(part: &str) -> Result<Vec<u8>, JwtError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::Malformed("a part of it is not base64url without padding"))
}

fn object(part: &str) -> Result<Map<String, Value>, JwtError> {
    let text = String::from_utf8(decode(part)?).map_err(|_| JwtError::Malformed("a part of it is not UTF-8"))?;
    // The reason may name a key of the token, which stays out of it.
    match strict::parse(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(JwtError::Malformed("a part of it is no JSON object")),
        Err(_) => Err(JwtError::Malformed("a part of it is no JSON, or JSON that can be read in two ways")),
    }
}
