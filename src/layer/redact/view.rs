//! A text with one layer of escapes resolved: of JSON and of programming languages, of URIs, and of HTML.

use std::ops::Range;

/// What the escapes of a text stand for.
pub(super) struct View {
    pub(super) text: String,
    pieces: Vec<Piece>,
}

/// A stretch of the resolved text, up to the next one.
struct Piece {
    at: usize,
    raw: usize,
    /// How long the escape is that this stretch stands for; 0 for one that stands there as it is.
    escape: usize,
    /// Whether it stands for any character at all, rather than for one that only cannot stand alone.
    spelled: bool,
}

impl View {
    /// `None` for a text without escapes.
    pub(super) fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut view = Self { text: String::new(), pieces: Vec::new() };
        let (mut at, mut copied) = (0, 0);
        while let Some(found) = bytes[at..].iter().position(|byte| matches!(byte, b'\\' | b'%' | b'&')) {
            at += found;
            let (len, escapes) = match bytes[at] {
                b'\\' => backslash(&text[at..]),
                b'%' => percent(&bytes[at..]),
                _ => entity(&text[at..]),
            };
            if len == 0 {
                at += 1;
                continue;
            }
            view.plain(&text[copied..at], copied);
            for (c, escape, spelled) in escapes {
                view.pieces.push(Piece { at: view.text.len(), raw: at, escape, spelled });
                view.text.push(c);
                at += escape;
            }
            copied = at;
        }
        if view.pieces.is_empty() {
            return None;
        }
        view.plain(&text[copied..], copied);
        Some(view)
    }

    fn plain(&mut self, text: &str, raw: usize) {
        if !text.is_empty() {
            self.pieces.push(Piece { at: self.text.len(), raw, escape: 0, spelled: false });
            self.text.push_str(text);
        }
    }

    /// Where a part of the resolved text stands in the text itself.
    pub(super) fn raw(&self, range: &Range<usize>) -> Range<usize> {
        let piece = |at: usize| &self.pieces[self.pieces.partition_point(|piece| piece.at <= at).saturating_sub(1)];
        let (first, last) = (piece(range.start), piece(range.end.saturating_sub(1).max(range.start)));
        let start = if first.escape == 0 { first.raw + (range.start - first.at) } else { first.raw };
        let end = if last.escape == 0 { last.raw + (range.end - last.at) } else { last.raw + last.escape };
        start..end
    }

    /// Where the text itself spells characters by their numbers.
    pub(super) fn spelled(&self) -> impl Iterator<Item = Range<usize>> {
        self.pieces.iter().filter(|piece| piece.spelled).map(|piece| piece.raw..piece.raw + piece.escape)
    }
}

/// How long what begins here is, and the characters in it: each with the length of its escape, and whether it is spelled by number.
type Escapes = (usize, Vec<(char, usize, bool)>);

const NONE: Escapes = (0, Vec::new());

fn one(c: char, len: usize, spelled: bool) -> Escapes {
    (len, vec![(c, len, spelled)])
}

fn hex(text: &str, range: Range<usize>) -> Option<u32> {
    let digits = text.get(range)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

fn backslash(text: &str) -> Escapes {
    let shown = |code: u32| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    match text.as_bytes().get(1) {
        Some(b'u') => {
            if let Some(code) = hex(text, 2..6) {
                let low = (text.as_bytes().get(6..8) == Some(b"\\u")).then(|| hex(text, 8..12)).flatten();
                return match (code, low) {
                    (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) => {
                        one(shown(0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00)), 12, true)
                    }
                    _ => one(shown(code), 6, true),
                };
            }
            let braced = text.strip_prefix("\\u{").and_then(|rest| rest.bytes().take(7).position(|byte| byte == b'}'));
            match braced.and_then(|len| Some((hex(text, 3..3 + len)?, len))) {
                Some((code, len)) => one(shown(code), len + 4, true),
                None => NONE,
            }
        }
        Some(b'U') => hex(text, 2..10).map_or(NONE, |code| one(shown(code), 10, true)),
        Some(b'x') => hex(text, 2..4).map_or(NONE, |code| one(shown(code), 4, true)),
        Some(b'n' | b'r') => one('\n', 2, false),
        Some(b't' | b'b' | b'f') => one(' ', 2, false),
        Some(&byte @ (b'"' | b'\'' | b'`' | b'\\' | b'/')) => one(char::from(byte), 2, false),
        _ => NONE,
    }
}

/// All that follow one another, since a character may take several.
fn percent(bytes: &[u8]) -> Escapes {
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut found = Vec::new();
    while let (Some(b'%'), Some(high), Some(low)) = (bytes.get(found.len() * 3), digit(found.len() * 3 + 1), digit(found.len() * 3 + 2)) {
        found.push(u8::try_from(high * 16 + low).unwrap_or_default());
    }
    let mut all = Vec::with_capacity(found.len());
    for chunk in found.utf8_chunks() {
        all.extend(chunk.valid().chars().map(|c| (c, c.len_utf8() * 3, true)));
        if !chunk.invalid().is_empty() {
            all.push((char::REPLACEMENT_CHARACTER, chunk.invalid().len() * 3, true));
        }
    }
    (found.len() * 3, all)
}

fn entity(text: &str) -> Escapes {
    let Some(end) = text.bytes().take(12).position(|byte| byte == b';') else { return NONE };
    let named = match &text[1..end] {
        "quot" => Some('"'),
        "apos" => Some('\''),
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        _ => None,
    };
    if let Some(c) = named {
        return one(c, end + 1, false);
    }
    let code = match text[1..end].strip_prefix('#') {
        Some(digits) if digits.starts_with(['x', 'X']) => hex(text, 3..end),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        _ => None,
    };
    code.and_then(char::from_u32).map_or(NONE, |c| one(c, end + 1, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_resolved_and_what_stands_for_a_part_is_known() {
        let text = r#"é\u0068\ud83d\ude00 %C3%A9%ff \"x&#x41;&amp;\q%zz"#;
        let view = View::of(text).unwrap();
        assert_eq!(view.text, "éh😀 é\u{fffd} \"xA&\\q%zz");
        let raw = |part: &str| {
            let start = view.text.find(part).unwrap();
            &text[view.raw(&(start..start + part.len()))]
        };
        assert_eq!(raw("h😀"), r"\u0068\ud83d\ude00");
        assert_eq!(raw("é\u{fffd}"), "%C3%A9%ff");
        assert_eq!(raw("\"xA"), r#"\"x&#x41;"#);
        assert_eq!(raw("\\q"), "\\q");
        assert!(View::of("nothing: 100 % & so").is_none());
    }
}
