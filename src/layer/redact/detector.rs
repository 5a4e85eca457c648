use std::{fmt, ops::Range, sync::Arc};

use smol_str::SmolStr;

use super::marks;

/// Finds one kind of thing in a text.
///
/// Its name stands in what takes the place of a find, as in `[redacted:email]`.
#[derive(Clone)]
pub struct Detector {
    name: SmolStr,
    find: Arc<dyn Fn(&str) -> Vec<Range<usize>> + Send + Sync>,
    /// Whether what it finds is certain, so that it may look at numbers too.
    certain: bool,
}

/// A pattern that cannot be used.
#[cfg(feature = "redact")]
#[derive(Debug, thiserror::Error)]
#[error("the pattern of the detector `{name}`: {source}")]
#[non_exhaustive]
pub struct DetectorError {
    name: SmolStr,
    source: Box<regex::Error>,
}

impl Detector {
    /// What `find` finds: ranges of bytes. They may overlap, and one that cuts a character in two takes the whole of it.
    ///
    /// Of the name, letters, digits, `_` and `-` are kept, 64 of them at most.
    ///
    /// It is shown each text several times, once for each form that the text can be read in. One that takes more time than is linear in the
    /// text makes redaction take more.
    pub fn new(name: impl AsRef<str>, find: impl Fn(&str) -> Vec<Range<usize>> + Send + Sync + 'static) -> Self {
        let name: String = name.as_ref().bytes().filter(|byte| marks::part_of_name(*byte)).take(marks::LONGEST).map(char::from).collect();
        Self { name: name.into(), find: Arc::new(find), certain: false }
    }

    /// This very text, for a secret that the program itself knows. It is found in the numbers of JSON too.
    pub fn literal(name: impl AsRef<str>, secret: impl Into<String>) -> Self {
        let secret = secret.into();
        let find = move |text: &str| -> Vec<Range<usize>> {
            if secret.is_empty() {
                return Vec::new();
            }
            text.match_indices(&secret).map(|(start, found)| start..start + found.len()).collect()
        };
        Self { certain: true, ..Self::new(name, find) }
    }

    /// What a regular expression matches: its first group where it has one, and the whole match otherwise (feature `redact`). It runs in time
    /// that is linear in the text.
    ///
    /// # Errors
    ///
    /// If `pattern` is none, or a huge one.
    #[cfg(feature = "redact")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redact")))]
    pub fn regex(name: impl AsRef<str>, pattern: &str) -> Result<Self, DetectorError> {
        Self::checked(name, pattern, |_| true)
    }

    /// What a regular expression matches, if `check` agrees.
    #[cfg(feature = "redact")]
    pub(super) fn checked(
        name: impl AsRef<str>,
        pattern: &str,
        check: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<Self, DetectorError> {
        let regex = regex::RegexBuilder::new(pattern)
            .size_limit(4 << 20)
            .build()
            .map_err(|source| DetectorError { name: SmolStr::new(name.as_ref()), source: Box::new(source) })?;
        let groups = regex.captures_len() > 1;
        Ok(Self::new(name, move |text| {
            let ranges: Vec<Range<usize>> = if groups {
                regex.captures_iter(text).filter_map(|found| found.get(1).or_else(|| found.get(0))).map(|found| found.range()).collect()
            } else {
                regex.find_iter(text).map(|found| found.range()).collect()
            };
            ranges.into_iter().filter(|range| check(&text[range.clone()])).collect()
        }))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it looks at numbers though nobody asks for that.
    pub(super) const fn is_certain(&self) -> bool {
        self.certain
    }

    /// The finds in a text, each at least one character long, within the text and on the boundaries of characters.
    pub(super) fn find<'a>(&self, text: &'a str) -> impl Iterator<Item = Range<usize>> + use<'a> {
        (self.find)(text).into_iter().filter_map(move |Range { start, end }| {
            let end = end.min(text.len());
            if start >= end {
                return None;
            }
            let start = (0..=start).rev().find(|at| text.is_char_boundary(*at))?;
            let end = (end..=text.len()).find(|at| text.is_char_boundary(*at))?;
            Some(start..end)
        })
    }
}

impl fmt::Debug for Detector {
    /// The name alone: what is looked for may be the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Detector").field(&self.name).finish()
    }
}
