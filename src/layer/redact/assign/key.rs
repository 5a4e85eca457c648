//! The key of a value, and what stands between the two.

use std::ops::Range;

use super::{super::keys::Keys, LONGEST_KEY};

/// A run of letters, digits, `_`, `-` and `.`, that may be a key or the end of one.
pub(super) struct Key {
    pub(super) chunk: Range<usize>,
    /// The whole of it, where it stands in quotes, and the chunk otherwise.
    pub(super) range: Range<usize>,
    /// The quote that it stands in.
    pub(super) quoted: bool,
}

/// What says that a value follows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Sign {
    /// `=`, `:` and the like.
    Is {
        /// Whether it is a colon.
        colon: bool,
    },
    /// Nothing but blanks, after a flag or before a quote.
    Blank,
    /// The `>` of `<key>`.
    Element,
}

pub(super) const fn part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || byte >= 0x80
}

pub(super) const fn blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

pub(super) const fn quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// How many bytes from here on are such.
pub(super) fn run(text: &str, at: usize, of: impl Fn(u8) -> bool) -> usize {
    text.as_bytes()[at..].iter().take_while(|byte| of(**byte)).count()
}

/// A quote with the backslashes before it: where the text within begins.
pub(super) fn opening(text: &str, at: usize) -> Option<usize> {
    let slashes = run(text, at, |byte| byte == b'\\');
    text.as_bytes().get(at + slashes).is_some_and(|byte| quote(*byte)).then_some(at + slashes + 1)
}

impl Key {
    /// The next run from here on.
    pub(super) fn next(text: &str, at: usize) -> Option<Self> {
        let start = at + text.as_bytes()[at..].iter().position(|byte| part(*byte))?;
        let end = start + run(text, start, part);
        let mut from = start.max(end.saturating_sub(LONGEST_KEY));
        while !text.is_char_boundary(from) {
            from += 1;
        }
        Some(Self { chunk: from..end, range: from..end, quoted: false }.in_quotes(text))
    }

    /// Widened to the whole of a key that stands in quotes.
    fn in_quotes(mut self, text: &str) -> Self {
        let Some(within) = opening(text, self.chunk.end) else { return self };
        let sign = text.as_bytes()[within - 1];
        let least = self.chunk.start.saturating_sub(LONGEST_KEY);
        let before = &text.as_bytes()[least..self.chunk.start];
        let open = before.iter().rposition(|byte| *byte == sign || *byte == b'\n').filter(|at| before[*at] == sign);
        if let Some(open) = open {
            self.range = least + open + 1..self.chunk.end;
            self.quoted = true;
        }
        self
    }

    /// What follows, and where the value begins; `None` if this is no key.
    pub(super) fn sign(&self, text: &str) -> Option<(Sign, usize)> {
        let bytes = text.as_bytes();
        let end = self.chunk.end;
        if bytes.get(end) == Some(&b'>') {
            let start = self.chunk.start - run_back(text, self.chunk.start, |byte| byte == b':' || part(byte));
            if start.checked_sub(1).is_some_and(|at| bytes[at] == b'<') {
                return Some((Sign::Element, end + 1));
            }
            if self.chunk.len() > 1 && bytes[end - 1] == b'-' {
                return Some((Sign::Is { colon: false }, after_blanks(text, end + 1)));
            }
        }
        let mut at = opening(text, end).unwrap_or(end);
        at += run(text, at, |byte| byte == b'*');
        while let Some(b'[' | b']' | b')') = bytes.get(at) {
            at += 1;
            at += run(text, at, |byte| byte.is_ascii_digit());
        }
        let blanks = run(text, at, blank);
        at += blanks;
        let next = bytes.get(at + 1).copied();
        let after = match bytes.get(at)? {
            b':' if next == Some(b':') || bytes.get(at + 1..at + 3) == Some(b"//") => return None,
            b':' => at + 1 + usize::from(next == Some(b'=')),
            b'=' => at + 1 + run(text, at + 1, |byte| matches!(byte, b'=' | b'>' | b'~')),
            b'+' | b'?' if next == Some(b'=') => at + 2,
            b'-' if next == Some(b'>') => at + 2,
            // The second of two in a call or a pair: `setenv("PASSWORD", "…")`.
            b',' if self.quoted && self.range.start.checked_sub(2).is_some_and(|at| bytes[at] == b'(') => {
                let start = after_blanks(text, at + 1);
                return opening(text, start).map(|_| (Sign::Blank, start));
            }
            _ if blanks == 0 => return None,
            b'-' => return None,
            _ if bytes[self.chunk.start] == b'-' && !self.quoted => return Some((Sign::Blank, at)),
            _ if self.quoted => return None,
            _ => {
                // Looked at no further than a value in one line is long.
                let within = opening(text, at)?;
                let mut line = bytes[within..].iter().take(256).take_while(|byte| **byte != b'\n');
                return line.any(|byte| *byte == bytes[within - 1]).then_some((Sign::Blank, at));
            }
        };
        let colon = bytes.get(at) == Some(&b':');
        let after = after + run(text, after, |byte| byte == b'*');
        let start = if self.quoted { after + run(text, after, |byte| byte.is_ascii_whitespace()) } else { after_blanks(text, after) };
        Some((Sign::Is { colon }, start))
    }

    /// Whether it is the second half of two words with a space between: `API Key`.
    pub(super) fn joined(&self, text: &str, keys: &Keys) -> bool {
        if self.quoted || self.chunk.start.checked_sub(1).is_none_or(|at| text.as_bytes()[at] != b' ') {
            return false;
        }
        let end = self.chunk.start - 1;
        let len = run_back(text, end, part);
        let mut from = end - len;
        while !text.is_char_boundary(from) {
            from += 1;
        }
        len > 0 && !keys.hides(&text[from..end]) && keys.hides(&text[from..self.chunk.end])
    }
}

fn after_blanks(text: &str, at: usize) -> usize {
    at + run(text, at, blank)
}

/// How many bytes before here are such, within the length of a key.
pub(super) fn run_back(text: &str, end: usize, of: impl Fn(u8) -> bool) -> usize {
    text.as_bytes()[..end].iter().rev().take(LONGEST_KEY).take_while(|byte| of(**byte)).count()
}
