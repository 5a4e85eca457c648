use std::{borrow::Cow, collections::BTreeSet, error::Error, fmt, ops::Range, sync::Arc};

use serde_json::value::RawValue;

use super::{Detector, Typed, json};
use crate::model::{Arguments, RawObject};

/// What is to be hidden, and how it is found: one value for results, arguments and what observers write.
///
/// It looks for what its [detectors](Detector) find in texts, and for everything that stands under certain keys of JSON objects. A text that
/// is JSON as a whole is looked at as JSON, also within other JSON. A find gives way to `[redacted:NAME]`.
///
/// Redacting twice is redacting once. Cheap to clone.
///
/// | [`secrets`](Self::secrets) | finds |
/// |---|---|
/// | `private_key` | PEM blocks of private keys |
/// | `jwt`, `bearer`, `authorization` | JSON web tokens, bearer tokens, credentials of an `Authorization` header |
/// | `aws`, `github`, `gitlab`, `slack`, `google`, `stripe`, `model_provider`, `package_registry`, `mail_provider` | keys and tokens that these issue, by their published prefixes |
/// | `url_password` | the password in `scheme://user:password@host` |
/// | `assignment` | what follows `password =`, `"api_key":` and the like in plain text |
///
/// | [`personal`](Self::personal) | finds |
/// |---|---|
/// | `email`, `phone` | addresses, and numbers with a country code |
/// | `card`, `iban` | card numbers that pass Luhn's check, account numbers that pass that of ISO 7064 |
/// | `us_ssn` | social security numbers of the USA |
///
/// ```
/// use toolstack::layer::redact::{Detector, Redactor};
///
/// let redactor = Redactor::new().detector(Detector::literal("house", "open sesame")).keys(["password"]);
/// assert_eq!(redactor.text("say open sesame twice"), "say [redacted:house] twice");
/// assert_eq!(redactor.text(r#"{"Password":"x","n":1.0}"#), r#"{"Password":"[redacted:key]","n":1.0}"#);
/// ```
#[derive(Clone, Default)]
pub struct Redactor {
    rules: Arc<Rules>,
}

#[derive(Clone, Default)]
struct Rules {
    detectors: Vec<Detector>,
    keys: BTreeSet<String>,
    numbers: bool,
}

/// How far redaction has got into texts within texts, and what may stand for values that are no text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    pub(super) typed: Typed,
    depth: u8,
}

impl Mode {
    pub(super) const fn new(typed: Typed) -> Self {
        Self { typed, depth: 0 }
    }

    pub(super) const fn deeper(self) -> Self {
        Self { depth: self.depth.saturating_add(1), ..self }
    }
}

pub(super) const MARKER: &str = "[redacted:";

pub(super) fn marker(name: &str) -> String {
    format!("{MARKER}{name}]")
}

/// The keys of [`Redactor::common_keys`].
const COMMON_KEYS: &[&str] = &[
    "access_token",
    "api_key",
    "apikey",
    "auth_token",
    "authorization",
    "client_secret",
    "cookie",
    "credentials",
    "id_token",
    "passphrase",
    "passwd",
    "password",
    "private_key",
    "pwd",
    "refresh_token",
    "secret",
    "secret_key",
    "session_token",
    "set_cookie",
    "token",
    "x_api_key",
];

impl Redactor {
    /// Hides nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Hides the secrets of the table above, and what stands under the [common keys](Self::common_keys) (feature `redact`).
    #[cfg(feature = "redact")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redact")))]
    #[must_use]
    pub fn secrets() -> Self {
        Self::new().detectors(super::ready::secrets().iter().cloned()).common_keys()
    }

    /// Hides the personal data of the table above (feature `redact`).
    #[cfg(feature = "redact")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redact")))]
    #[must_use]
    pub fn personal() -> Self {
        Self::new().detectors(super::ready::personal().iter().cloned())
    }

    /// Hides what this finds too.
    #[must_use]
    pub fn detector(self, detector: Detector) -> Self {
        self.detectors([detector])
    }

    /// Hides what these find too.
    #[must_use]
    pub fn detectors(mut self, detectors: impl IntoIterator<Item = Detector>) -> Self {
        Arc::make_mut(&mut self.rules).detectors.extend(detectors);
        self
    }

    /// Hides everything that stands under these keys of JSON objects, whatever their case, `_`, `-` and spaces.
    #[must_use]
    pub fn keys(mut self, keys: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Arc::make_mut(&mut self.rules).keys.extend(keys.into_iter().map(|key| plain(key.as_ref())));
        self
    }

    /// Hides what stands under keys that are usual for secrets, such as `password`, `token`, `api_key` and `authorization`.
    #[must_use]
    pub fn common_keys(self) -> Self {
        self.keys(COMMON_KEYS)
    }

    /// Hides what that one hides too.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        let rules = Arc::make_mut(&mut self.rules);
        rules.detectors.extend(other.rules.detectors.iter().cloned());
        rules.keys.extend(other.rules.keys.iter().cloned());
        rules.numbers |= other.rules.numbers;
        self
    }

    /// Looks at the numbers of JSON too, as the texts that they are written as.
    #[must_use]
    pub fn numbers(mut self) -> Self {
        Arc::make_mut(&mut self.rules).numbers = true;
        self
    }

    /// A text, or JSON as text, with what is to be hidden replaced.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.within(text, Mode::new(Typed::Marker)).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Arguments for somebody who only looks at them: broken ones are looked at as text.
    #[must_use]
    pub fn arguments(&self, arguments: &Arguments) -> Arguments {
        let changed = arguments.as_json().ok().and_then(|text| self.within(text, Mode::new(Typed::Marker)));
        changed.map_or_else(|| arguments.clone(), Arguments::from_text)
    }

    /// The text of an error and of all that lie behind it.
    #[must_use]
    pub fn error(&self, error: &(dyn Error + 'static)) -> String {
        let chain = std::iter::successors(Some(error), |&error| error.source()).take(16);
        let texts: Vec<String> = chain.map(ToString::to_string).collect();
        self.text(&texts.join(": ")).into_owned()
    }

    /// Whether what stands under this key is hidden.
    pub(super) fn hides(&self, key: &str) -> bool {
        !self.rules.keys.is_empty() && self.rules.keys.contains(&plain(key))
    }

    /// Which detector finds something in this number.
    pub(super) fn number(&self, number: &str) -> Option<&str> {
        if !self.rules.numbers || !number.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
            return None;
        }
        self.rules.detectors.iter().find(|detector| detector.find(number).next().is_some()).map(Detector::name)
    }

    /// A text as it is after redaction, as JSON if it is that; `None` if nothing changes.
    pub(super) fn within(&self, text: &str, mode: Mode) -> Option<String> {
        /// What was no JSON can be JSON once something is replaced.
        const ROUNDS: usize = 4;
        let mut changed: Option<String> = None;
        for _ in 0..ROUNDS {
            match self.once(changed.as_deref().unwrap_or(text), mode) {
                None => break,
                next => changed = next,
            }
        }
        changed
    }

    fn once(&self, text: &str, mode: Mode) -> Option<String> {
        /// So many texts within texts are taken apart as JSON.
        const DEEPEST: u8 = 4;
        if mode.depth < DEEPEST && text.trim_start().starts_with(['{', '[', '"']) && serde_json::from_str::<&RawValue>(text).is_ok() {
            return json::rewrite(text, self, mode);
        }
        self.text_changed(text)
    }

    /// An object as it is after redaction; `None` if nothing changes.
    pub(super) fn object(&self, object: &RawObject, mode: Mode) -> Option<RawObject> {
        if object.is_empty() {
            return None;
        }
        let changed = json::rewrite(&serde_json::to_string(object).ok()?, self, mode)?;
        // What was an object is one still; nothing at all is better than what was to be hidden.
        Some(serde_json::from_str(&changed).unwrap_or_default())
    }

    /// A plain text as it is after redaction; `None` if nothing changes.
    pub(super) fn text_changed(&self, text: &str) -> Option<String> {
        /// Each round leaves less to look at; a text that needs more is not shown at all.
        const ROUNDS: usize = 16;
        let mut changed: Option<String> = None;
        for _ in 0..ROUNDS {
            let now = changed.as_deref().unwrap_or(text);
            match self.round(now) {
                None => return changed,
                next => changed = next,
            }
        }
        Some(marker("all"))
    }

    /// Replaces what is found outside the markers that stand there already.
    fn round(&self, text: &str) -> Option<String> {
        let mut finds: Vec<(Range<usize>, &str)> = Vec::new();
        for part in self.unmarked(text) {
            for detector in &self.rules.detectors {
                let found = detector.find(&text[part.clone()]);
                finds.extend(found.map(|range| (range.start + part.start..range.end + part.start, detector.name())));
            }
        }
        if finds.is_empty() {
            return None;
        }
        finds.sort_by_key(|(range, _)| (range.start, usize::MAX - range.end));
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for (range, name) in finds {
            // One that begins within another find is hidden with it.
            if range.start >= copied {
                out.push_str(&text[copied..range.start]);
                out.push_str(&marker(name));
                copied = range.end;
            } else {
                copied = copied.max(range.end);
            }
        }
        out.push_str(&text[copied..]);
        Some(out)
    }

    /// The parts of a text between the markers of this redactor.
    fn unmarked(&self, text: &str) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = 0;
        for (at, _) in text.match_indices(MARKER) {
            let Some(len) = text[at + MARKER.len()..].find(']') else { break };
            let name = &text[at + MARKER.len()..][..len];
            let ours =
                matches!(name, "key" | "all" | "uri" | "binary") || self.rules.detectors.iter().any(|detector| detector.name() == name);
            if ours && at >= start {
                parts.push(start..at);
                start = at + MARKER.len() + len + 1;
            }
        }
        parts.push(start..text.len());
        parts
    }
}

fn plain(key: &str) -> String {
    key.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

impl fmt::Debug for Redactor {
    /// The names of the detectors, and the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: BTreeSet<&str> = self.rules.detectors.iter().map(Detector::name).collect();
        f.debug_struct("Redactor").field("detectors", &names).field("keys", &self.rules.keys).finish_non_exhaustive()
    }
}
