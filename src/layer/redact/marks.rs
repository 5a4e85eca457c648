//! What stands in the place of a find, and what is done with finds that meet it.

use std::{borrow::Cow, ops::Range};

const MARKER: &str = "[redacted:";

/// The names that are no detector's.
pub(super) const OWN: &[&str] = &["all", "binary", "deep", "encoded", "key", "size"];

/// The longest name of a detector, in bytes.
pub(super) const LONGEST: usize = 64;

pub(super) fn marker(name: &str) -> String {
    format!("{MARKER}{name}]")
}

pub(super) fn part_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The markers in a text, in their order. `known` is asked about each name, which is never longer than [`LONGEST`].
pub(super) fn markers(text: &str, mut known: impl FnMut(&str) -> bool) -> Vec<Range<usize>> {
    text.match_indices(MARKER)
        .filter_map(|(start, _)| {
            let from = start + MARKER.len();
            let name = text.as_bytes()[from..].iter().take(LONGEST + 1).take_while(|byte| part_of_name(**byte)).count();
            let end = from + name;
            (name <= LONGEST && text.as_bytes().get(end) == Some(&b']') && known(&text[from..end])).then_some(start..end + 1)
        })
        .collect()
}

/// Whether something in a text may be one.
pub(super) fn any(text: &str) -> bool {
    text.contains(MARKER)
}

/// A text without what looks like markers.
pub(super) fn without(text: &str) -> Cow<'_, str> {
    let found = markers(text, |_| true);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for Range { start, end } in found {
        out.push_str(&text[copied..start]);
        out.push(' ');
        copied = end;
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// A find as it counts beside the markers that stand there already: not at all if there is nothing else in it, and with the whole of each
/// that it cuts.
pub(super) fn beside(find: Range<usize>, marks: &[Range<usize>]) -> Option<Range<usize>> {
    let first = marks.partition_point(|mark| mark.end <= find.start);
    let after = marks.partition_point(|mark| mark.start < find.end);
    let Some(met) = marks.get(first..after).filter(|met| !met.is_empty()) else { return Some(find) };
    // Up to where there is nothing but markers.
    let hidden = met.iter().try_fold(find.start, |at, mark| (mark.start <= at).then_some(mark.end));
    if hidden.is_some_and(|end| end >= find.end) {
        return None;
    }
    Some(find.start.min(met[0].start)..find.end.max(met[met.len() - 1].end))
}

/// Something to be written in the place of a part of a text.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) instead: String,
}

/// A text with these edits; `None` if they change nothing. One that begins within another is gone with it.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    edits.retain(|edit| text[edit.range.clone()] != edit.instead);
    if edits.is_empty() {
        return None;
    }
    edits.sort_by_key(|edit| (edit.range.start, usize::MAX - edit.range.end));
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for Edit { range, instead } in edits {
        if range.start >= copied {
            out.push_str(&text[copied..range.start]);
            out.push_str(&instead);
        }
        copied = copied.max(range.end);
    }
    out.push_str(&text[copied..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_in_one_pass_however_many_are_left_open() {
        let steps = |text: &str| {
            let mut asked = 0;
            let found = markers(text, |name| {
                asked += name.len();
                true
            });
            (asked, found.len())
        };
        let open = |count: usize| MARKER.repeat(count);
        assert_eq!(steps(&open(10_000)), (0, 0));
        assert_eq!(steps(&format!("{}key]", open(10_000))), (3, 1));
        assert_eq!(steps(&marker("key").repeat(10_000)), (30_000, 10_000));
        assert_eq!(steps(&marker(&"x".repeat(LONGEST + 1))), (0, 0));
    }

    #[test]
    fn a_find_takes_the_markers_that_it_cuts_with_it_and_counts_for_nothing_within_one() {
        let marks = [10..20, 30..40];
        assert_eq!(beside(12..18, &marks), None);
        assert_eq!(beside(10..20, &marks), None);
        assert_eq!(beside(0..10, &marks), Some(0..10));
        assert_eq!(beside(18..25, &marks), Some(10..25));
        assert_eq!(beside(15..31, &marks), Some(10..40));
        assert_eq!(beside(20..30, &marks), Some(20..30));
        assert_eq!(beside(5..8, &[0..4, 4..9]), None);
        assert_eq!(beside(2..8, &[0..4, 4..9]), None);
        assert_eq!(beside(2..10, &[0..4, 4..9]), Some(0..10));
    }
}
