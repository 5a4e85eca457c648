use std::{borrow::Cow, fmt};

use serde_json::Value;

use crate::error::BoxError;

/// What makes checks of schemas: the engine behind a [`ValidateLayer`](super::ValidateLayer).
///
/// [`JsonSchema`](super::JsonSchema) (feature `jsonschema`) is one. A closure from a schema to a [`Check`] is another.
pub trait Validator: Send + Sync + 'static {
    /// Compiles a schema. Called once for each registration of a tool, at its first call.
    ///
    /// # Errors
    ///
    /// If the schema is none that this engine takes: calls of the tool are then refused. An engine fetches nothing, neither from
    /// the network nor from a disk, and refuses references that would need it.
    fn compile(&self, schema: &Value) -> Result<Box<dyn Check>, BoxError>;
}

impl<F> Validator for F
where
    F: Fn(&Value) -> Result<Box<dyn Check>, BoxError> + Send + Sync + 'static,
{
    fn compile(&self, schema: &Value) -> Result<Box<dyn Check>, BoxError> {
        self(schema)
    }
}

/// A compiled schema.
pub trait Check: Send + Sync + 'static {
    /// What is wrong with a value, at most `most` of it; empty if nothing is.
    fn violations(&self, value: &Value, most: usize) -> Vec<Violation>;

    /// Whether nothing is.
    fn is_valid(&self, value: &Value) -> bool {
        self.violations(value, 1).is_empty()
    }
}

/// One thing that is wrong with a value: where, which rule, and what the rule expects. It never repeats the value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Where, as a JSON pointer; empty for the whole.
    pub path: String,
    /// The keyword of the schema.
    pub rule: Cow<'static, str>,
    /// What it expects, as in "must be an integer".
    pub expected: String,
}

impl Violation {
    /// At this path, this rule, which expects that.
    #[must_use]
    pub fn new(path: impl Into<String>, rule: impl Into<Cow<'static, str>>, expected: impl Into<String>) -> Self {
        Self { path: path.into(), rule: rule.into(), expected: expected.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", Cut(&self.path))?;
        }
        write!(f, "{} ({})", Cut(&self.expected), Cut(&self.rule))
    }
}

/// A part of a message that may be long.
struct Cut<'a>(&'a str);

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 240;
        match self.0.char_indices().nth(LONGEST) {
            None => f.write_str(self.0),
            Some((end, _)) => write!(f, "{}…", &self.0[..end]),
        }
    }
}

/// Violations in one line.
pub(super) fn listed(violations: &[Violation], most: usize) -> String {
    use fmt::Write as _;

    let mut out = String::new();
    for violation in violations.iter().take(most) {
        if !out.is_empty() {
            out.push_str("; ");
        }
        let _ = write!(out, "{violation}");
    }
    if violations.len() > most {
        out.push_str("; and more");
    }
    out.push('.');
    out
}
