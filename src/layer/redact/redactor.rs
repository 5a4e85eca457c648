use std::{borrow::Cow, collections::BTreeSet, error::Error, fmt, sync::Arc};

use super::{Detector, Typed, json, keys::Keys, marks, text::Pass};
use crate::model::{Arguments, RawObject};

/// What is to be hidden, and how it is found: one value for results, arguments and what observers write.
///
/// It looks for what its [detectors](Detector) find in texts, and for everything that stands under certain [keys](Self::keys), in JSON and in
/// plain text. A find gives way to `[redacted:NAME]`, a value under a key to `[redacted:key]`. The [module](super#forms) says in which forms a
/// text is read.
///
/// Redacting twice is redacting once. A find that meets a marker takes it along, so that a marker in the midst of a secret hides nothing.
///
/// It takes time that is linear in the text, whatever the text is, if its detectors do. What would take more, is nested more deeply than the
/// module says, or is larger than [`max_bytes`](Self::max_bytes), is hidden whole. Cheap to clone.
///
/// | [`secrets`](Self::secrets) | finds |
/// |---|---|
/// | `private_key` | PEM blocks of private keys |
/// | `jwt`, `bearer` | JSON web tokens, bearer tokens |
/// | `login` | passwords in `curl -u name:password` and in `.netrc` |
/// | `aws`, `github`, `gitlab`, `slack`, `google`, `stripe`, `model_provider`, `package_registry`, `mail_provider` | keys and tokens that these issue, by their published prefixes |
/// | `url_password` | the password in `scheme://user:password@host`, the token in `https://token@host`, passwords in sources of data of Go and Oracle |
/// | `key` | what stands under the [common keys](Self::common_keys) |
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

#[derive(Clone)]
pub(super) struct Rules {
    pub(super) detectors: Vec<Detector>,
    pub(super) keys: Keys,
    pub(super) numbers: bool,
    pub(super) max_bytes: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self { detectors: Vec::new(), keys: Keys::default(), numbers: false, max_bytes: 32 << 20 }
    }
}

impl Rules {
    /// Whether a marker of this name is one of this redactor's.
    pub(super) fn names(&self, name: &str) -> bool {
        marks::OWN.contains(&name) || self.detectors.iter().any(|detector| detector.name() == name)
    }
}

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

    /// Hides everything that stands under these keys, in JSON and in plain text.
    ///
    /// A key is taken apart into words, at what is neither letter nor digit, where a capital begins a word, and between letters and digits.
    /// What is given here counts wherever it stands in a key as words that follow one another, whatever parts them there: `api_key` is found in
    /// `x-api-key`, `apiKeyProd`, `APIKEY` and `api.key.2`, `password` in `db_password`, and neither `password` in `passwordless` nor `token`
    /// in `tokenizer` or `tokens_used`. What is six letters long or longer is also found at the end of a word, as in `dbpassword`.
    ///
    /// It does not count in a key whose last word says that it only tells of a secret, such as `token_type`, `password_policy` and `secret_name`.
    /// `token` does not count after a word that makes it a place in a list or a word of a model's, as in `next_page_token` and
    /// `eos_token`.
    #[must_use]
    pub fn keys(mut self, keys: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let rules = Arc::make_mut(&mut self.rules);
        keys.into_iter().for_each(|key| rules.keys.add(key.as_ref()));
        self
    }

    /// Hides what stands under keys that are usual for secrets, such as `password`, `token`, `api_key` and `authorization`.
    #[must_use]
    pub fn common_keys(mut self) -> Self {
        Arc::make_mut(&mut self.rules).keys.add_common();
        self
    }

    /// Shows what stands under these very keys, whatever words they are made of. Their case counts for nothing, nor does what parts
    /// their words. A detector may still find something there.
    #[must_use]
    pub fn except_keys(mut self, keys: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let rules = Arc::make_mut(&mut self.rules);
        keys.into_iter().for_each(|key| rules.keys.except(key.as_ref()));
        self
    }

    /// Hides what that one hides too, and excepts the keys that either does.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        let rules = Arc::make_mut(&mut self.rules);
        rules.detectors.extend(other.rules.detectors.iter().cloned());
        rules.keys.and(&other.rules.keys);
        rules.numbers |= other.rules.numbers;
        rules.max_bytes = rules.max_bytes.min(other.rules.max_bytes);
        self
    }

    /// Hides texts that are longer than this, whole. 32 MiB if nothing is said.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        Arc::make_mut(&mut self.rules).max_bytes = bytes;
        self
    }

    /// Looks at the numbers of JSON too, as the texts that they are written as. For a [literal](Detector::literal) this is so in any case, and for
    /// JSON in the midst of plain text.
    #[must_use]
    pub fn numbers(mut self) -> Self {
        Arc::make_mut(&mut self.rules).numbers = true;
        self
    }

    /// A text, or JSON as text, with what is to be hidden replaced.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.changed(text, Typed::Marker).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Arguments for somebody who only looks at them: broken ones are looked at as text.
    #[must_use]
    pub fn arguments(&self, arguments: &Arguments) -> Arguments {
        let changed = arguments.as_json().ok().and_then(|text| self.changed(text, Typed::Marker));
        changed.map_or_else(|| arguments.clone(), Arguments::from_text)
    }

    /// The text of an error and of all that lie behind it.
    #[must_use]
    pub fn error(&self, error: &(dyn Error + 'static)) -> String {
        let chain = std::iter::successors(Some(error), |&error| error.source()).take(16);
        let texts: Vec<String> = chain.map(ToString::to_string).collect();
        self.text(&texts.join(": ")).into_owned()
    }

    /// A text as it is after redaction; `None` if nothing changes.
    pub(super) fn changed(&self, text: &str, typed: Typed) -> Option<String> {
        self.pass(text, typed).within(text, 0)
    }

    /// JSON as it is after redaction; `None` if nothing changes.
    pub(super) fn json(&self, json: &str, typed: Typed) -> Option<String> {
        if json.len() > self.rules.max_bytes {
            return json::hidden(json, typed).map(|_| match typed {
                Typed::Marker => format!("\"{}\"", marks::marker("size")),
                _ => json::hidden(json, typed).unwrap_or("null").to_owned(),
            });
        }
        json::rewrite(json, &self.pass(json, typed), 0)
    }

    /// An object as it is after redaction; `None` if nothing changes.
    pub(super) fn object(&self, object: &RawObject, typed: Typed) -> Option<RawObject> {
        if object.is_empty() {
            return None;
        }
        let changed = self.json(&serde_json::to_string(object).ok()?, typed)?;
        // What was an object is one still; nothing at all is better than what was to be hidden.
        Some(serde_json::from_str(&changed).unwrap_or_default())
    }

    /// Whether a text holds something that is to be hidden, as it stands there.
    pub(super) fn finds_plainly(&self, text: &str) -> bool {
        self.pass(text, Typed::Marker).finds_plainly(text)
    }

    fn pass(&self, text: &str, typed: Typed) -> Pass<'_> {
        Pass::new(&self.rules, typed, text.len())
    }
}

impl fmt::Debug for Redactor {
    /// The names of the detectors, and the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: BTreeSet<&str> = self.rules.detectors.iter().map(Detector::name).collect();
        f.debug_struct("Redactor").field("detectors", &names).field("keys", self.rules.keys.terms()).finish_non_exhaustive()
    }
}
