use std::fmt;

use serde_json::Value;

use super::{Missing, Truth};

/// Where in the arguments something stands: a JSON pointer (RFC 6901), in which `*` stands for each element or field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    text: Box<str>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Each,
    Key(Box<str>),
}

impl Path {
    /// The most steps a path may have.
    const MAX_STEPS: usize = 32;

    pub(super) fn new(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return if text.is_empty() {
                Ok(Self { text: "".into(), steps: Vec::new() })
            } else {
                Err(format!("the path `{}` does not begin with `/`", cut(text)))
            };
        };
        let steps: Result<Vec<_>, String> = rest.split('/').map(step).collect();
        let steps = steps.map_err(|why| format!("the path `{}`: {why}", cut(text)))?;
        if steps.len() > Self::MAX_STEPS {
            return Err(format!("the path `{}` has more than {} steps", cut(text), Self::MAX_STEPS));
        }
        Ok(Self { text: text.into(), steps })
    }

    /// Tests what stands there. Of several, all have to agree: some of this and some of that is neither.
    pub(super) fn test(&self, root: &Value, missing: Missing, test: &dyn Fn(&Value) -> Truth) -> Truth {
        walk(&self.steps, root, missing, test)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

fn step(text: &str) -> Result<Step, String> {
    if text == "*" {
        return Ok(Step::Each);
    }
    let mut key = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '~' => match chars.next() {
                Some('0') => key.push('~'),
                Some('1') => key.push('/'),
                _ => return Err("`~` stands only in `~0` and `~1`".to_owned()),
            },
            c => key.push(c),
        }
    }
    Ok(Step::Key(key.into()))
}

fn walk(steps: &[Step], value: &Value, missing: Missing, test: &dyn Fn(&Value) -> Truth) -> Truth {
    match (steps.split_first(), value) {
        (None, value) => test(value),
        (Some((Step::Key(key), rest)), Value::Object(map)) => match map.get(&**key) {
            Some(value) => walk(rest, value, missing, test),
            None => missing.into(),
        },
        (Some((Step::Key(key), rest)), Value::Array(items)) => match index(key).map(|at| items.get(at)) {
            Some(Some(value)) => walk(rest, value, missing, test),
            Some(None) => missing.into(),
            None => Truth::Unknown,
        },
        (Some((Step::Each, rest)), Value::Array(items)) => all(items.iter().map(|value| walk(rest, value, missing, test)), missing),
        (Some((Step::Each, rest)), Value::Object(map)) => all(map.values().map(|value| walk(rest, value, missing, test)), missing),
        // A text where an object should be is not the same as nothing: the tool may well read it.
        (Some(_), _) => Truth::Unknown,
    }
}

fn all(truths: impl Iterator<Item = Truth>, none: Missing) -> Truth {
    truths.reduce(Truth::agree).unwrap_or(none.into())
}

fn index(key: &str) -> Option<usize> {
    let canonical = key == "0" || (!key.starts_with('0') && key.bytes().all(|b| b.is_ascii_digit()));
    if canonical { key.parse().ok() } else { None }
}

/// A text for a message: at most 64 characters of it.
pub(super) fn cut(text: &str) -> &str {
    text.char_indices().nth(64).map_or(text, |(end, _)| &text[..end])
}
