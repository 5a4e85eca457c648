use std::fmt::Write as _;

use crate::model::Arguments;

/// How much of the arguments a person is shown, in characters.
const SHOWN: usize = 4000;

/// The arguments for a person to read: nothing that a terminal or a page would act on, and said how much is left out.
pub(super) fn arguments(arguments: &Arguments) -> String {
    match arguments.as_json() {
        Ok(json) => text(json, SHOWN),
        Err(_) => "(unreadable)".to_owned(),
    }
}

/// A text for a person to read: control characters, and those that reorder or hide text, stand as their codes.
pub(super) fn text(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most * 4));
    let mut chars = text.chars();
    for c in chars.by_ref().take(most) {
        if c.is_control() || hides(c) {
            let _ = write!(out, "\\u{{{:x}}}", c as u32);
        } else {
            out.push(c);
        }
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
