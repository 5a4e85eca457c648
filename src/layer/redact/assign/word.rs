//! Words, as a shell or a programming language takes them.

use std::ops::Range;

use super::{
    LONGEST_KEY,
    key::{blank, opening, part, quote, run},
};

/// All that belongs to a value by its signs, and what is within the quotes if it is one text in quotes. `line` is where the line of its
/// beginning ends.
pub(super) fn words(text: &str, start: usize, line: usize) -> (usize, Option<Range<usize>>) {
    let (mut end, mut inner) = word(text, start, line);
    loop {
        let blanks = run(text, end, blank);
        let next = end + blanks;
        let more = match text.as_bytes().get(next) {
            Some(b'+' | b'.' | b'~' | b'&') => joined(text, next),
            // A type stood before the value.
            Some(b'=') if inner.is_none() => {
                let then = next + run(text, next, |byte| matches!(byte, b'=' | b'>') || blank(byte));
                (then < text.len()).then_some(then)
            }
            Some(_) if blanks > 0 && scheme(&text[start..end]) => Some(next),
            _ => None,
        };
        let Some(then) = more else { return (end, inner) };
        let (now, _) = word(text, then, line);
        (end, inner) = (now.max(then), None);
        if now == then {
            return (end, inner);
        }
    }
}

/// Where a further part begins of a text that is put together.
pub(super) fn joined(text: &str, at: usize) -> Option<usize> {
    let sign = at + run(text, at, blank);
    let then = sign + run(text, sign, |byte| matches!(byte, b'+' | b'.' | b'~' | b'&' | b'\n' | b'\r') || blank(byte));
    (then > sign && opening(text, then).is_some()).then_some(then)
}

/// What stands before credentials.
fn scheme(word: &str) -> bool {
    ["basic", "bearer", "digest", "token", "apikey", "negotiate", "ntlm"].iter().any(|name| word.eq_ignore_ascii_case(name))
}

/// How far a further part of a word is looked for beyond the line that the value begins in.
const LOOK: usize = 256;

/// One word as a shell takes it: quotes and brackets keep blanks.
fn word(text: &str, start: usize, line: usize) -> (usize, Option<Range<usize>>) {
    let bytes = text.as_bytes();
    if let Some(&[sign, second, third]) = bytes.get(start..start + 3)
        && quote(sign)
        && (second, third) == (sign, sign)
    {
        // Three quotes open a text of many lines.
        let (within, triple) = (start + 3, &text[start..start + 3]);
        let end = text[within..].find(triple).map_or(text.len(), |len| within + len);
        return ((end + 3).min(text.len()), Some(within..end));
    }
    let (mut at, mut opened) = (start, false);
    // Where the last part in quotes ends.
    let mut joint = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' | b'"' | b'\'' | b'`' if opening(text, at).is_some() => {
                let within = opening(text, at).unwrap_or(at + 1);
                let (sign, slashes) = (bytes[within - 1], within - 1 - at);
                // The end of quotes that all of it is in, if it is not the beginning of another part of a word of a shell.
                let part = at == joint && bytes.get(within).is_some_and(|byte| blank(*byte));
                if at > start && !part && ends_word(bytes, within) {
                    break;
                }
                let until = match at {
                    _ if at == start => text.len(),
                    _ if within <= line => line,
                    _ => text.len().min(within + LOOK),
                };
                match closing(text, within, sign, slashes, until) {
                    Some((content, after)) => {
                        if at == start && ends_word(bytes, after) {
                            return (after, Some(within..content));
                        }
                        (at, joint) = (after, after);
                    }
                    // It is not closed: all that is left belongs to it.
                    None if at == start => return (text.len(), Some(within..text.len())),
                    None => at = within,
                }
            }
            0xc2 | 0xe2 if at == start && curly(text, at).is_some() => {
                let (within, content, after) = curly(text, at).unwrap_or((at, at, at));
                return (after, Some(within..content));
            }
            b'{' | b'[' | b'(' if at == start => {
                at = group(text, at);
                opened = true;
                if ends_word(bytes, at) {
                    break;
                }
            }
            b'{' | b'[' | b'(' | b'<' => {
                opened = true;
                at += 1;
            }
            b'\\' => at += run(text, at, |byte| byte == b'\\'),
            b',' | b';' | b'&' if separates(text, at) => break,
            b'}' | b']' | b')' | b'>' if !opened => {
                let closers = run(text, at, |byte| matches!(byte, b'}' | b']' | b')' | b'>'));
                if at > start && ends_word(bytes, at + closers) {
                    break;
                }
                at += closers;
            }
            _ if byte.is_ascii_whitespace() => break,
            _ => at += 1,
        }
    }
    (at, None)
}

/// Whether no word goes on here.
fn ends_word(bytes: &[u8], at: usize) -> bool {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b';' | b')' | b']' | b'}' | b'>' | b':' | b'&' | b'<');
    bytes.get(at).is_none_or(ends) || bytes[at..].starts_with(b"/>")
}

/// Whether another key follows this sign, or no word.
fn separates(text: &str, at: usize) -> bool {
    let mut next = at + 1;
    if text.as_bytes().get(next).is_none_or(u8::is_ascii_whitespace) {
        return true;
    }
    if let Some(within) = opening(text, next) {
        return ends_word(text.as_bytes(), within) || run(text, within, part) > 0 || text.as_bytes()[at] == b',';
    }
    let word = text.as_bytes()[next..].iter().take(LONGEST_KEY).take_while(|byte| part(**byte)).count();
    next += word;
    word > 0 && matches!(text.as_bytes().get(next), Some(b'=' | b':'))
}

/// Where a text in quotes ends, and where what follows begins. A quote within is one with more backslashes.
pub(super) fn closing(text: &str, within: usize, sign: u8, slashes: usize, until: usize) -> Option<(usize, usize)> {
    let bytes = &text.as_bytes()[..until.min(text.len())];
    let (mut at, mut run) = (within, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        if byte == sign && closes(run, slashes) {
            return Some((at - run.min(slashes), at + 1));
        }
        run = if byte == b'\\' { run + 1 } else { 0 };
        at += 1;
    }
    None
}

/// Whether a quote after `run` backslashes closes one that was opened after `slashes`, or a text that this one is in.
fn closes(run: usize, mut slashes: usize) -> bool {
    loop {
        if run % (2 * (slashes + 1)) == slashes {
            return true;
        }
        if slashes == 0 {
            return false;
        }
        slashes = (slashes - 1) / 2;
    }
}

/// A text in quotes as they are printed.
fn curly(text: &str, at: usize) -> Option<(usize, usize, usize)> {
    let open = text[at..].chars().next()?;
    let close = match open {
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        '„' => '“',
        _ => return None,
    };
    let within = at + open.len_utf8();
    // Looked at no further than a value in one line is long.
    let content = text[within..].char_indices().take(1024).take_while(|(_, c)| *c != '\n').find(|(_, c)| *c == close)?.0 + within;
    Some((within, content, content + close.len_utf8()))
}

/// Past the bracket that closes the one that begins here, or past everything if there is none.
fn group(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth -= 1,
            b'\\' | b'"' if opening(text, at).is_some_and(|within| bytes[within - 1] == b'"') => {
                let within = opening(text, at).unwrap_or(at + 1);
                match closing(text, within, b'"', within - 1 - at, text.len()) {
                    Some((_, after)) => at = after - 1,
                    None => return text.len(),
                }
            }
            b'\\' => at += run(text, at, |byte| byte == b'\\') - 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}
