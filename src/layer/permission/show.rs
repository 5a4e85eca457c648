use std::fmt::Write as _;

use super::ApproverError;
use crate::model::Arguments;

/// How long a question may be at most that a person is asked, in characters of the arguments as they are shown, unless set otherwise.
pub(super) const SHOWN: usize = 10_000;

/// More blanks than that in a row could push what follows them out of sight.
const BLANKS: usize = 16;

/// The arguments for a person to read, all of them: as their canonical text, with nothing in it that a terminal or a page would act on
/// or that takes up room without being seen. What a person cannot be shown, they are not asked about.
pub(super) fn arguments(arguments: &Arguments, most: usize) -> Result<String, ApproverError> {
    let json = arguments.canonical().map_err(|_| ApproverError::Unreadable)?;
    let mut out = String::with_capacity(json.len().min(most));
    let (mut blanks, mut shown) = (0, 0);
    for c in json.chars() {
        blanks = if c == ' ' { blanks + 1 } else { 0 };
        shown += write(&mut out, c, blanks > BLANKS || is_odd_blank(c));
        if shown > most {
            return Err(ApproverError::TooLong { most });
        }
    }
    Ok(out)
}

/// Writes a character, or its code, and says how many characters that are.
fn write(out: &mut String, c: char, hidden: bool) -> usize {
    if hidden || c.is_control() || hides(c) {
        let before = out.len();
        let _ = write!(out, "\\u{{{:x}}}", c as u32);
        out.len() - before
    } else {
        out.push(c);
        1
    }
}

/// White space other than the usual one, and what looks like it.
fn is_odd_blank(c: char) -> bool {
    c != ' ' && (c.is_whitespace() || c == '\u{2800}')
}

/// A text for a person to read: control characters, and those that reorder or hide text, stand as their codes.
pub(super) fn text(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most * 4));
    let mut chars = text.chars();
    for c in chars.by_ref().take(most) {
        write(&mut out, c, false);
    }
    let left = chars.count();
    if left > 0 {
        let _ = write!(out, "… ({left} characters more)");
    }
    out
}

/// Characters that change how the text around them looks: direction marks, and those without width.
const fn hides(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}
