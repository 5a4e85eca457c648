use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Check, Violation};
use crate::model::strict;

/// How arguments that are not valid may be put right, before a call is refused for them.
///
/// Only what is not valid is touched, and only if all of it is valid afterwards; a valid call goes on bit for bit. What was done
/// stands in the `_meta` of the response, under [`REPAIRED`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Repair {
    /// Reads a string as JSON where the schema asks for an object or a list; also the arguments as a whole.
    pub parse: bool,
    /// Takes a key for the one in the schema that differs only in case, `_`, `-` and spaces.
    pub names: bool,
    /// Takes these keys for those.
    pub aliases: BTreeMap<String, String>,
}

/// The key in the `_meta` of a response that says what was repaired in its call: a list of `{"path", "what"}`.
pub const REPAIRED: &str = "toolstack/repaired";

/// What was repaired, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Repaired {
    path: String,
    what: &'static str,
}

impl Repair {
    /// Everything but aliases.
    #[must_use]
    pub fn new() -> Self {
        Self { parse: true, names: true, aliases: BTreeMap::new() }
    }

    /// Takes a key called `wrong` for the one called `right`, in the arguments' top level.
    #[must_use]
    pub fn alias(mut self, wrong: impl Into<String>, right: impl Into<String>) -> Self {
        self.aliases.insert(wrong.into(), right.into());
        self
    }

    /// The arguments, put right; `None` if they cannot be.
    pub(super) fn attempt(&self, value: &Value, schema: &Value, check: &dyn Check) -> Option<(Value, Vec<Repaired>)> {
        /// A repair can bring up what was hidden, such as a list in an object in a string.
        const ROUNDS: usize = 4;
        const MOST: usize = 32;
        let mut value = value.clone();
        let mut done = Vec::new();
        if self.parse
            && let Some(object) = parsed(&value).filter(Value::is_object)
        {
            value = object;
            done.push(Repaired { path: String::new(), what: "read from a string" });
        }
        self.rename(&mut value, schema, &mut done);
        for _ in 0..ROUNDS {
            if !done.is_empty() && check.is_valid(&value) {
                return Some((value, done));
            }
            let before = done.len();
            if self.parse {
                for violation in check.violations(&value, MOST) {
                    parse_at(&mut value, &violation, &mut done);
                }
            }
            if done.len() == before {
                return None;
            }
        }
        check.is_valid(&value).then_some((value, done))
    }

    /// Renames keys of the top level that the schema does not know.
    fn rename(&self, value: &mut Value, schema: &Value, done: &mut Vec<Repaired>) {
        let (Some(fields), Some(known)) = (value.as_object_mut(), schema.get("properties").and_then(Value::as_object)) else { return };
        let mut renames: Vec<(String, String)> = Vec::new();
        for wrong in fields.keys().filter(|key| !known.contains_key(*key)) {
            if let Some(right) = self.right_name(wrong, known).filter(|right| !fields.contains_key(*right)) {
                renames.push((wrong.clone(), right.to_owned()));
            }
        }
        for (wrong, right) in &renames {
            // Two for one name: which is meant is anybody's guess.
            if renames.iter().filter(|(_, other)| other == right).count() > 1 {
                continue;
            }
            if let Some(moved) = fields.remove(wrong) {
                fields.insert(right.clone(), moved);
                done.push(Repaired { path: format!("/{}", escaped(right)), what: "renamed" });
            }
        }
    }

    fn right_name<'a>(&'a self, wrong: &str, known: &'a Map<String, Value>) -> Option<&'a str> {
        if let Some(right) = self.aliases.get(wrong).filter(|right| known.contains_key(*right)) {
            return Some(right);
        }
        let mut alike = known.keys().filter(|key| self.names && plain(key) == plain(wrong));
        let right = alike.next()?;
        if alike.next().is_some() { None } else { Some(right) }
    }
}

/// Reads the string at a violation of `type` as JSON, if it holds an object or a list.
fn parse_at(value: &mut Value, violation: &Violation, done: &mut Vec<Repaired>) {
    if !matches!(&*violation.rule, "type" | "anyOf" | "oneOf") {
        return;
    }
    if let Some(place) = value.pointer_mut(&violation.path)
        && let Some(read) = parsed(place)
    {
        *place = read;
        done.push(Repaired { path: violation.path.clone(), what: "read from a string" });
    }
}

fn parsed(value: &Value) -> Option<Value> {
    let text = value.as_str()?.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    strict::parse(text).ok().filter(|value| value.is_object() || value.is_array())
}

fn plain(key: &str) -> String {
    key.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [(self.parse, "parse"), (self.names, "names"), (!self.aliases.is_empty(), "aliases")];
        let names: Vec<_> = parts.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
        f.write_str(&names.join(" "))
    }
}
