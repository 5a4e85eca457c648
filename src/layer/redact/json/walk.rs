use std::{collections::HashMap, ops::Range};

use super::{decoded, encoded, end_of_string, hidden};
use crate::layer::redact::{
    Typed, assign,
    keys::last_word,
    marks::{self, Edit, marker},
    text::Pass,
};

/// One way through JSON from its beginning to its end, without recursion.
pub(super) struct Walk<'a> {
    json: &'a str,
    pass: &'a Pass<'a>,
    depth: u8,
    plain: bool,
    at: usize,
    open: Vec<Open>,
    edits: Vec<Edit>,
    /// What the value that comes next is to its key.
    role: Role,
}

/// A list or an object that is not at its end yet.
struct Open {
    start: usize,
    /// What it is to its key itself.
    role: Role,
    list: bool,
    /// Whether what comes next in an object is a key.
    key: bool,
    /// How many values there were in a list.
    count: usize,
    /// Whether one of the values is a name of what is secret: that of a pair, or the first of two in a list.
    names: bool,
    /// The values that such a name would hide.
    values: Vec<Range<usize>>,
    /// Keys that were replaced, and how often: no two may be the same.
    replaced: HashMap<String, usize>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Role {
    #[default]
    Plain,
    /// The key says that all of it is hidden.
    Hidden,
    /// It may name what is secret: `"name": "password"`.
    Name,
    /// It may be what is named.
    Value,
}

impl<'a> Walk<'a> {
    pub(super) fn new(json: &'a str, pass: &'a Pass<'a>, depth: u8, plain: bool) -> Self {
        Self { json, pass, depth, plain, at: 0, open: Vec::new(), edits: Vec::new(), role: Role::Plain }
    }

    pub(super) fn run(mut self) -> Vec<Edit> {
        while let Some(&byte) = self.json.as_bytes().get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b':' => self.at += 1,
                b',' => {
                    if let Some(open) = self.open.last_mut() {
                        open.key = !open.list;
                    }
                    self.at += 1;
                }
                b'}' | b']' => self.close(),
                b'"' if self.open.last().is_some_and(|open| open.key) => self.key(),
                _ if self.role == Role::Hidden => {
                    let range = self.at..self.end_of_value();
                    self.hide(range.clone());
                    self.done(range, Role::Plain, None);
                }
                b'{' | b'[' => {
                    let (list, role) = (byte == b'[', std::mem::take(&mut self.role));
                    let (names, count) = (false, 0);
                    let open = Open { start: self.at, role, list, key: !list, count, names, values: Vec::new(), replaced: HashMap::new() };
                    self.open.push(open);
                    self.at += 1;
                }
                b'"' => self.string(),
                _ => {
                    let range = self.at..self.end_of_value();
                    if let Some(name) = self.pass.number(&self.json[range.clone()], self.plain) {
                        let instead = match self.pass.typed {
                            Typed::Marker => encoded(&marker(name)),
                            Typed::Null => "null".to_owned(),
                            Typed::Same => "0".to_owned(),
                        };
                        self.edits.push(Edit { range: range.clone(), instead });
                    }
                    let role = self.role;
                    self.done(range, role, None);
                }
            }
        }
        self.edits
    }

    fn string(&mut self) {
        let range = self.at..end_of_string(self.json, self.at);
        let text = decoded(&self.json[range.clone()]);
        match text.as_ref().map(|text| self.pass.within(text, self.depth + 1)) {
            Some(None) => {}
            Some(Some(changed)) => self.edits.push(Edit { range: range.clone(), instead: encoded(&changed) }),
            // What cannot be read cannot be shown.
            None => self.edits.push(Edit { range: range.clone(), instead: encoded(&marker("all")) }),
        }
        let role = self.role;
        self.done(range, role, text.as_deref());
    }

    /// A value is at its end: what it is to the list or object that it is in.
    fn done(&mut self, range: Range<usize>, role: Role, text: Option<&str>) {
        self.at = range.end;
        self.role = Role::Plain;
        let names = |text: Option<&str>| text.is_some_and(|text| assign::is_name(text) && self.pass.hides(text));
        let in_list = self.open.len().checked_sub(2).is_some_and(|above| self.open[above].list);
        let Some(open) = self.open.last_mut() else { return };
        if open.list {
            open.count += 1;
            match open.count {
                1 if in_list => open.names = names(text),
                2 if open.names => open.values.push(range),
                _ => {}
            }
        } else if role == Role::Name {
            open.names |= names(text);
        } else if role == Role::Value {
            open.values.push(range);
        }
    }

    fn close(&mut self) {
        let end = self.at + 1;
        let Some(open) = self.open.pop() else {
            self.at = end;
            return;
        };
        if open.names && (!open.list || open.count == 2) {
            open.values.into_iter().for_each(|range| self.hide(range));
        }
        self.done(open.start..end, open.role, None);
    }

    fn hide(&mut self, range: Range<usize>) {
        if let Some(instead) = hidden(&self.json[range.clone()], self.pass.typed) {
            self.edits.push(Edit { range, instead: instead.to_owned() });
        }
    }

    fn key(&mut self) {
        let range = self.at..end_of_string(self.json, self.at);
        self.at = range.end;
        let Some(open) = self.open.last_mut() else { return };
        open.key = false;
        let Some(name) = decoded(&self.json[range.clone()]) else {
            self.edits.push(Edit { range, instead: encoded(&marker("all")) });
            self.role = Role::Hidden;
            return;
        };
        let word = last_word(&name);
        self.role = match &*word {
            _ if self.pass.hides(&name) => Role::Hidden,
            word if assign::NAMES.contains(&word) => Role::Name,
            word if assign::VALUES.contains(&word) => Role::Value,
            _ => Role::Plain,
        };
        let mut now = self.pass.within(&name, self.depth + 1).unwrap_or_else(|| name.clone());
        if marks::any(&now) {
            let base = now.clone();
            while open.replaced.contains_key(&now) {
                let count = open.replaced.entry(base.clone()).or_insert(1);
                *count += 1;
                now = format!("{base} {count}");
            }
            open.replaced.insert(now.clone(), 1);
        }
        if now != name {
            self.edits.push(Edit { range, instead: encoded(&now) });
        }
    }

    /// Where the value that begins here ends.
    fn end_of_value(&self) -> usize {
        let bytes = self.json.as_bytes();
        let mut at = self.at;
        let mut depth = 0_usize;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => at = end_of_string(self.json, at),
                b'{' | b'[' => {
                    depth += 1;
                    at += 1;
                    continue;
                }
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => {
                    depth -= 1;
                    at += 1;
                }
                b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => break,
                b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => {
                    at += 1;
                    continue;
                }
                _ => {
                    at += bytes[at..].iter().take_while(|b| !matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')).count();
                }
            }
            if depth == 0 {
                break;
            }
        }
        at
    }
}
