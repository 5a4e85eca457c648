//! One text after the other, and the texts within it.

use std::{cell::Cell, ops::Range};

use serde_json::value::RawValue;

use super::{
    Typed, assign, encoded, json,
    marks::{self, Edit, marker},
    redactor::Rules,
    view::View,
};

/// So many texts within texts are taken apart. What is deeper is hidden whole.
const DEEPEST: u8 = 8;

/// So many layers of escapes are resolved. What is spelled with more is hidden.
const LAYERS: usize = 4;

/// A replacement can make a find of what was none: so often a text is looked at again. One that needs more is hidden whole.
const ROUNDS: usize = 16;

/// The redaction of one text, with all that it takes apart on the way.
pub(super) struct Pass<'r> {
    rules: &'r Rules,
    pub(super) typed: Typed,
    /// How many bytes may still be looked at: each byte of the text so often, in all the forms that it can be read in.
    left: Cell<usize>,
}

impl<'r> Pass<'r> {
    pub(super) fn new(rules: &'r Rules, typed: Typed, size: usize) -> Self {
        const LOOKS: usize = 256;
        const LEAST: usize = 64 * 1024;
        Self { rules, typed, left: Cell::new(size.saturating_mul(LOOKS).saturating_add(LEAST)) }
    }

    pub(super) fn hides(&self, key: &str) -> bool {
        self.rules.keys.hides(key)
    }

    /// Which detector finds something in this number. In plain text, all look at it.
    pub(super) fn number(&self, number: &str, plain: bool) -> Option<&'r str> {
        if !number.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            return None;
        }
        let all = plain || self.rules.numbers;
        let mut detectors = self.rules.detectors.iter().filter(|detector| all || detector.is_certain());
        detectors.find(|detector| detector.find(number).next().is_some()).map(super::Detector::name)
    }

    /// A text as it is after redaction, as JSON if it is that; `None` if nothing changes. `depth` texts are around it.
    pub(super) fn within(&self, text: &str, depth: u8) -> Option<String> {
        if text.len() > self.rules.max_bytes {
            return Some(marker("size"));
        }
        let mut changed: Option<String> = None;
        for _ in 0..ROUNDS {
            let now = changed.as_deref().unwrap_or(text);
            let cost = now.len() + 64;
            let Some(left) = self.left.get().checked_sub(cost) else { return Some(marker("all")) };
            self.left.set(left);
            if now.trim_start().starts_with(['{', '[', '"']) && serde_json::from_str::<&RawValue>(now).is_ok() {
                if depth >= DEEPEST {
                    return Some(marker("deep"));
                }
                // What JSON becomes does not change any more.
                return json::rewrite(now, self, depth).or(changed);
            }
            match self.round(now, depth) {
                None => return changed,
                next => changed = next,
            }
        }
        Some(marker("all"))
    }

    /// A text that is no JSON as a whole, looked at once.
    fn round(&self, text: &str, depth: u8) -> Option<String> {
        let islands = json::islands(text);
        let marks = marks::markers(text, |name| self.rules.names(name));
        let mut edits = Vec::new();
        for island in &islands {
            if depth >= DEEPEST {
                edits.push(Edit { range: island.clone(), instead: marker("deep") });
            } else {
                json::edits(&text[island.clone()], self, depth, true).into_iter().for_each(|Edit { range, instead }| {
                    edits.push(Edit { range: range.start + island.start..range.end + island.start, instead });
                });
            }
        }
        let mut find = |range: Range<usize>, name: &str| {
            // What lies in JSON is looked at as what it means there.
            let at = islands.partition_point(|island| island.end < range.end);
            let inside = islands.get(at).is_some_and(|island| island.start < range.start && range.end < island.end);
            if !inside && let Some(range) = marks::beside(range, &marks) {
                edits.push(Edit { range, instead: marker(name) });
            }
        };
        self.finds(text, depth, &mut find);

        let mut views: Vec<View> = Vec::new();
        let raw = |views: &[View], range: Range<usize>| views.iter().rev().fold(range, |range, view| view.raw(&range));
        while let Some(view) = View::of(views.last().map_or(text, |view| &view.text)) {
            if views.len() == LAYERS {
                let mut done = 0;
                for range in view.spelled().map(|range| raw(&views, range)) {
                    if range.start >= done {
                        let word = whole_word(text, done, range);
                        done = word.end;
                        find(word, "deep");
                    }
                }
                break;
            }
            views.push(view);
            let Some(view) = views.last() else { break };
            let cost = view.text.len();
            let Some(left) = self.left.get().checked_sub(cost) else { return Some(marker("all")) };
            self.left.set(left);
            self.finds(&view.text, depth, &mut |range, name| find(raw(&views, range), name));
        }
        marks::apply(text, edits)
    }

    /// All that is found in a text, by its form, by the keys in it, and in what it holds in another form.
    fn finds(&self, text: &str, depth: u8, find: &mut dyn FnMut(Range<usize>, &str)) {
        for detector in &self.rules.detectors {
            detector.find(text).for_each(|range| find(range, detector.name()));
        }
        assign::values(text, &self.rules.keys).into_iter().for_each(|range| find(range, "key"));
        for run in encoded::runs(text) {
            let held = encoded::text(&text[run.clone()]);
            if let Some(held) = held
                && (depth >= DEEPEST || self.within(&held, depth + 1).is_some())
            {
                find(run, "encoded");
            }
        }
    }

    /// Whether something is found in a text as it stands there.
    pub(super) fn finds_plainly(&self, text: &str) -> bool {
        self.rules.detectors.iter().any(|detector| detector.find(text).next().is_some())
    }
}

/// A part of a text, and what stands around it without a blank between, but not before `least`.
fn whole_word(text: &str, least: usize, part: Range<usize>) -> Range<usize> {
    let blank = |byte: &u8| byte.is_ascii_whitespace();
    let start = text.as_bytes()[least..part.start].iter().rposition(blank).map_or(least, |at| least + at + 1);
    let end = text.as_bytes()[part.end..].iter().position(blank).map_or(text.len(), |at| part.end + at);
    start..end
}
