//! Durations as people write them: `30s`, `1h 30m`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
    humantime::parse_duration(&text)
        .map_err(|error| D::Error::custom(format_args!("{text:?} is no duration such as `30s` or `1h 30m`: {error}")))
}

pub(super) mod option {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(in super::super) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        #[derive(Deserialize)]
        struct One(#[serde(with = "super")] Duration);
        Ok(Option::<One>::deserialize(deserializer)?.map(|one| one.0))
    }
}
