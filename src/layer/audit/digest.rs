use std::{
    fmt,
    io::{self, Write},
    str::FromStr,
};

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};

use crate::model::{Arguments, Secret};

/// Names arguments without telling them: the SHA-256 of their canonical JSON text, with a key where the layer has one.
///
/// Two calls with the same arguments have the same digest, whatever their white space and the order of their keys. Without a key, whoever
/// guesses the arguments can check the guess: a digest of four digits hides nothing.
///
/// It is written as `sha256:` or `hmac-sha256:` and 64 hexadecimal digits. Where the arguments are no JSON that can be read strictly, it is
/// the digest of their text as it came, and begins with `text-`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArgumentsDigest {
    keyed: bool,
    canonical: bool,
    bytes: [u8; 32],
}

const FORMS: [(bool, bool, &str); 4] =
    [(false, true, "sha256:"), (true, true, "hmac-sha256:"), (false, false, "text-sha256:"), (true, false, "text-hmac-sha256:")];

impl ArgumentsDigest {
    /// Whether a key went into it.
    #[must_use]
    pub const fn is_keyed(&self) -> bool {
        self.keyed
    }

    /// Whether it is that of the canonical text; if not, the arguments could not be read.
    #[must_use]
    pub const fn is_canonical(&self) -> bool {
        self.canonical
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The digest of these arguments under this key, to look for a call in records.
    #[must_use]
    pub fn of(arguments: &Arguments, key: Option<&Secret>) -> Self {
        Digester::new(key).digest(arguments)
    }
}

impl fmt::Display for ArgumentsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (keyed, canonical, prefix) in FORMS {
            if (keyed, canonical) == (self.keyed, self.canonical) {
                f.write_str(prefix)?;
            }
        }
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ArgumentsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// That a text is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no digest of arguments: it begins with the name of the hash, and 64 hexadecimal digits follow")]
#[non_exhaustive]
pub struct NoDigest;

impl FromStr for ArgumentsDigest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let form = FORMS.into_iter().find_map(|(keyed, canonical, prefix)| Some((keyed, canonical, text.strip_prefix(prefix)?)));
        let (keyed, canonical, digits) = form.ok_or(NoDigest)?;
        Ok(Self { keyed, canonical, bytes: bytes(digits).ok_or(NoDigest)? })
    }
}

/// The 32 bytes that 64 hexadecimal digits stand for.
pub(super) fn bytes(digits: &str) -> Option<[u8; 32]> {
    let digits = digits.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? * 16 + low?).ok()?;
    }
    Some(bytes)
}

impl Serialize for ArgumentsDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ArgumentsDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Makes digests.
#[derive(Clone)]
pub(super) struct Digester(State);

#[derive(Clone)]
enum State {
    Plain,
    /// The key, as far as the hash has gone with it.
    Keyed(Box<Hmac<Sha256>>),
}

impl Digester {
    pub(super) fn new(key: Option<&Secret>) -> Self {
        // A key of any length is one.
        let keyed = key.and_then(|key| Hmac::new_from_slice(key.expose().as_bytes()).ok());
        Self(keyed.map_or(State::Plain, |hmac| State::Keyed(Box::new(hmac))))
    }

    pub(super) const fn is_keyed(&self) -> bool {
        matches!(self.0, State::Keyed(_))
    }

    pub(super) fn digest(&self, arguments: &Arguments) -> ArgumentsDigest {
        let (keyed, canonical, bytes) = match &self.0 {
            State::Plain => {
                let (canonical, hash) = fed(&Sha256::new(), |hash, bytes| sha2::Digest::update(hash, bytes), arguments);
                (false, canonical, hash.finalize().into())
            }
            State::Keyed(key) => {
                let (canonical, hash) = fed(&**key, Mac::update, arguments);
                (true, canonical, hash.finalize().into_bytes().into())
            }
        };
        ArgumentsDigest { keyed, canonical, bytes }
    }
}

/// A hash that was fed the arguments: their canonical text, or what there is of text where they have none.
fn fed<H: Clone>(fresh: &H, update: fn(&mut H, &[u8]), arguments: &Arguments) -> (bool, H) {
    let mut out = Buffered { hash: fresh.clone(), update, buffer: [0; 256], filled: 0 };
    if arguments.feed(&mut out).is_ok() {
        return (true, out.finish());
    }
    let mut hash = fresh.clone();
    update(&mut hash, arguments.as_json().unwrap_or_default().as_bytes());
    (false, hash)
}

/// Feeds a hash in larger pieces than it is written in.
struct Buffered<H> {
    hash: H,
    update: fn(&mut H, &[u8]),
    buffer: [u8; 256],
    filled: usize,
}

impl<H> Buffered<H> {
    fn finish(mut self) -> H {
        (self.update)(&mut self.hash, &self.buffer[..self.filled]);
        self.hash
    }
}

impl<H> Write for Buffered<H> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(room) = self.buffer.get_mut(self.filled..self.filled + bytes.len()) {
            room.copy_from_slice(bytes);
            self.filled += bytes.len();
        } else {
            (self.update)(&mut self.hash, &self.buffer[..self.filled]);
            (self.update)(&mut self.hash, bytes);
            self.filled = 0;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Digester {
    /// Whether there is a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digester").field("keyed", &self.is_keyed()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_is_that_of_the_canonical_text_and_of_the_standards_test_vectors() {
        let of =
            |text: &str, key: Option<&str>| ArgumentsDigest::of(&Arguments::from_text(text), key.map(Secret::from).as_ref()).to_string();
        // printf '{}' | sha256sum
        assert_eq!(of(" { } ", None), "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
        // RFC 4231, test case 2: its data is no JSON.
        assert_eq!(
            of("what do ya want for nothing?", Some("Jefe")),
            "text-hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(of(r#"{"b":1, "a":"\u0061"}"#, Some("k")), of(r#"{"a":"a","b":1}"#, Some("k")));
        assert_ne!(of("{}", Some("k")), of("{}", Some("l")));
        let value = ArgumentsDigest::of(&json!({ "b": 1, "a": "a" }).into(), None);
        assert_eq!(value.to_string(), of(r#"{"a":"a","b":1}"#, None));
    }

    #[test]
    fn a_long_text_is_hashed_whole() {
        for length in [0, 1, 200, 255, 256, 257, 1000] {
            let arguments = Arguments::from_text(format!(r#"{{"a":"{}","b":"{}"}}"#, "x".repeat(length), "y".repeat(length)));
            let plain = Sha256::digest(arguments.as_json().unwrap());
            assert_eq!(ArgumentsDigest::of(&arguments, None).as_bytes()[..], plain[..], "{length}");
        }
    }

    #[test]
    fn a_digest_is_read_back_and_nothing_else_is() {
        for key in [None, Some(Secret::new("k"))] {
            for text in ["{}", "no JSON"] {
                let digest = ArgumentsDigest::of(&Arguments::from_text(text), key.as_ref());
                assert_eq!(digest.to_string().parse(), Ok(digest));
                assert_eq!((digest.is_keyed(), digest.is_canonical()), (key.is_some(), text == "{}"));
            }
        }
        for text in ["", "sha256:", "md5:00", &format!("sha256:{}", "g".repeat(64)), &format!("sha256:{}", "é".repeat(32))] {
            assert_eq!(text.parse::<ArgumentsDigest>(), Err(NoDigest), "{text}");
        }
    }
}
