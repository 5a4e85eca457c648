//! The JSON forms of a record's fields.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serializer, de::Error};

use crate::{
    error::RefusalKind,
    model::{Fingerprint, Outcome},
};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(super) const fn is_zero(depth: &u16) -> bool {
    *depth == 0
}

fn text<'de, D: Deserializer<'de>, T>(deserializer: D, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    read(&text).ok_or_else(|| D::Error::custom(format_args!("no {what}: {:?}", text.chars().take(80).collect::<String>())))
}

fn hex(digits: &str, length: usize) -> Option<u128> {
    let right = digits.len() == length && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    right.then(|| u128::from_str_radix(digits, 16).ok()).flatten()
}

pub(super) mod hex64 {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{value:016x}"))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        text(deserializer, "stream", |text| hex(text, 16).and_then(|value| u64::try_from(value).ok()))
    }
}

pub(super) mod some_hex128 {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(value: &Option<u128>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(&format_args!("{value:032x}")),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u128>, D::Error> {
        text(deserializer, "trace id", |text| hex(text, 32)).map(Some)
    }
}

/// A time that RFC 3339 can write: the standard knows the years 1970 to 9999, as far as clocks are concerned.
pub(super) fn rfc3339(time: SystemTime) -> humantime::Rfc3339Timestamp {
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().min(LAST);
    humantime::format_rfc3339_micros(SystemTime::UNIX_EPOCH + since)
}

pub(super) mod time {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&rfc3339(*time))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        text(deserializer, "time", |text| humantime::parse_rfc3339(text).ok())
    }
}

pub(super) fn whole_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(super) mod micros {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(whole_micros(*duration))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}

pub(super) mod some_micros {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_u64(whole_micros(*duration)),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        micros::deserialize(deserializer).map(Some)
    }
}

pub(super) mod fingerprint {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(print: &Option<Fingerprint>, serializer: S) -> Result<S::Ok, S::Error> {
        match print {
            Some(print) => serializer.collect_str(print),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Fingerprint>, D::Error> {
        text(deserializer, "fingerprint", super::super::digest::bytes).map(|bytes| Some(Fingerprint::from_bytes(bytes)))
    }
}

pub(super) mod outcome {
    use serde::de::{IntoDeserializer, value::StrDeserializer};

    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(outcome.as_str())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Outcome, D::Error> {
        text(deserializer, "outcome", |text| {
            for outcome in [Outcome::Cancelled, Outcome::Completed, Outcome::InputRequired, Outcome::Task, Outcome::ToolError] {
                if outcome.as_str() == text {
                    return Some(outcome);
                }
            }
            let kind: StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
            RefusalKind::deserialize(kind).ok().map(Outcome::from)
        })
    }
}
