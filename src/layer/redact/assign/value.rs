//! How far a value reaches.

use std::{collections::HashMap, ops::Range};

use super::{
    LONGEST_KEY,
    key::{Key, Sign, blank, opening, part, quote, run, run_back},
    word::{closing, joined, words},
};
use crate::layer::redact::keys::last_word;

/// What there is around a value that says how far it may reach.
pub(super) struct Around {
    /// How far the line of the key is indented, where the key is the first in it.
    line: Option<usize>,
    /// Whether it is a header of many words.
    header: bool,
    quoted: bool,
    colon: bool,
    /// The quote, and the number of backslashes before it, that opens directly before the key.
    within: Option<(u8, usize)>,
}

impl Around {
    pub(super) fn of(text: &str, key: &Key, sign: Sign) -> Self {
        let bytes = text.as_bytes();
        let start = key.range.start - usize::from(key.quoted);
        let word = last_word(&text[key.range.clone()]);
        let before = start.checked_sub(1).map(|at| (bytes[at], run_back(text, at, |byte| byte == b'\\')));
        let sign = match sign {
            Sign::Is { colon } => Some(colon),
            _ => None,
        };
        Self {
            line: sign.and_then(|_| indent(text, start)),
            header: matches!(&*word, "authorization" | "cookie"),
            quoted: key.quoted,
            colon: sign == Some(true),
            within: before.filter(|(byte, _)| !key.quoted && quote(*byte)),
        }
    }
}

/// How far the line is indented that this is the beginning of.
fn indent(text: &str, start: usize) -> Option<usize> {
    let back = run_back(text, start, |byte| !matches!(byte, b'\n' | b'\r'));
    let begins = start - back;
    if begins > 0 && !matches!(text.as_bytes()[begins - 1], b'\n' | b'\r') {
        return None;
    }
    let lead = text.as_bytes().get(begins..start)?;
    let spaces = lead.iter().take_while(|byte| blank(**byte)).count();
    let rest = lead[spaces..].trim_ascii();
    let only = matches!(rest, b"" | b"export" | b"set" | b"declare -x") || rest.iter().all(|byte| b"-*>#/+\xef\xbb\xbf ".contains(byte));
    only.then_some(spaces)
}

/// The value that begins here.
pub(super) fn of(text: &str, mut start: usize, line: usize, around: &Around) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if let Some(indent) = around.line.filter(|_| around.colon && !around.quoted)
        && (start == line || block_follows(&text[start..line]))
    {
        return block(text, line, indent);
    }
    if start >= text.len() {
        return None;
    }
    if let Some((sign, slashes)) = around.within
        && let Some(after) = opening(text, start)
        && (bytes[after - 1], after - 1 - start) == (sign, slashes)
    {
        // The quote that the key is in ends here, and the value may be in others that are put after it.
        start = joined(text, after)?;
    } else if around.quoted && around.colon {
        let literal = run(text, start, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
        if literal > 0 && bytes.get(start + literal).is_none_or(|byte| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace()) {
            return shown(text, start..start + literal);
        }
    }
    let (end, inner) = words(text, start, line);
    if let Some(inner) = inner {
        return shown(text, inner);
    }
    let opened = matches!(bytes[start], b'{' | b'[' | b'(') || opening(text, start).is_some();
    let end = match around.within {
        // In quotes together with its key.
        Some((sign, slashes)) if !opened => {
            closing(text, start, sign, slashes, line).map_or(end, |(content, _)| content.max(end.min(line)))
        }
        _ if around.header || (around.line.is_some() && !(around.quoted && opened) && opening(text, start).is_none()) => {
            end.max(start + text[start..line].trim_end().len())
        }
        _ => end,
    };
    shown(text, start..end)
}

/// `None` for a value that shows nothing.
fn shown(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let nothing = matches!(&text[range.clone()], "null" | "None" | "nil" | "undefined" | "~");
    (!range.is_empty() && !nothing).then_some(range)
}

/// Whether the rest of a line says that the value is in the lines that follow, as in YAML.
fn block_follows(rest: &str) -> bool {
    let rest = rest.split(" #").next().unwrap_or_default().trim();
    rest.strip_prefix(['|', '>']).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-')))
}

/// The lines from here on that are indented more than the line before.
fn block(text: &str, line: usize, indent: usize) -> Option<Range<usize>> {
    let (mut found, mut at): (Option<Range<usize>>, usize) = (None, line);
    while at < text.len() {
        let begins = at + 1;
        let end = begins + run(text, begins.min(text.len()), |byte| byte != b'\n');
        let line = text.get(begins..end).unwrap_or_default();
        let spaces = line.bytes().take_while(|byte| blank(*byte)).count();
        let item = spaces == indent && line[spaces..].starts_with("- ");
        if !line.trim().is_empty() {
            if spaces <= indent && !item {
                break;
            }
            let start = found.as_ref().map_or(begins + spaces, |found| found.start);
            found = Some(start..begins + line.trim_end().len());
        }
        at = end.max(begins);
    }
    found
}

/// The name of the element that is closed here, without its namespace.
pub(super) fn closed(text: &str, at: usize) -> &str {
    let from = at + 2;
    let name = |from: usize| text.as_bytes()[from..].iter().take(LONGEST_KEY).take_while(|byte| part(**byte)).count();
    let first = name(from);
    let (from, len) =
        if text.as_bytes().get(from + first) == Some(&b':') { (from + first + 1, name(from + first + 1)) } else { (from, first) };
    text.get(from..from + len).unwrap_or_default()
}

/// What stands in an element, if that is closed anywhere: `last` says where each name is closed for the last time.
pub(super) fn element(text: &str, name: &str, start: usize, last: &HashMap<&str, usize>) -> Option<Range<usize>> {
    last.get(name).filter(|at| **at >= start)?;
    let end = text[start..].match_indices("</").map(|(at, _)| start + at).find(|at| closed(text, *at) == name)?;
    let content = &text[start..end];
    let lead = content.len() - content.trim_start().len();
    shown(text, start + lead..start + content.trim_end().len().max(lead))
}

/// A word that may be the name of something, and no more of it than a key is long.
pub(super) fn name(text: &str, start: usize) -> &str {
    let from = opening(text, start).unwrap_or(start);
    let len = text.as_bytes()[from..].iter().take(LONGEST_KEY).take_while(|byte| part(**byte) || **byte == b' ').count();
    // Cut where a character ends.
    (0..=len).rev().find_map(|len| text.get(from..from + len)).unwrap_or_default()
}
