use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap};
use serde_json::{Number, Value};

use super::{
    Missing, ShellPattern, Truth, number,
    path::{Path, cut},
    shell,
};
use crate::select::Pattern;

/// What has to hold for one argument of a call.
///
/// From a file, it is a `path`, one test, and `missing` where what is not there should count:
///
/// | test | holds for |
/// |---|---|
/// | `equals`, `one_of` | the value, or one of several; numbers by what they are worth |
/// | `glob` | a text that fits the [`Pattern`] |
/// | `prefix` | a text that begins so |
/// | `within` | a path beneath this directory, by its text: one with `..`, a backslash or a `~` in front cannot be told |
/// | `shell` | a command each part of which fits one of the [patterns](ShellPattern) |
/// | `less_than`, `at_most`, `greater_than`, `at_least` | a number, compared exactly |
///
/// The path is a JSON pointer; a step `*` stands for each element or field. `glob` and `prefix` compare texts and know nothing of paths,
/// hosts or commands: `/srv/../etc` begins with `/srv`.
///
/// A value of another kind than the test wants, and one that is missing, make the test [unknown](Truth::Unknown).
///
/// ```
/// use serde_json::json;
/// use toolstack::layer::permission::{ArgumentRule, Missing, Truth};
///
/// let below: ArgumentRule = serde_json::from_value(json!({ "path": "/amount", "at_most": 100 }))?;
/// assert_eq!(below.evaluate(&json!({ "amount": 99.5 })), Truth::True);
/// assert_eq!(below.evaluate(&json!({ "amount": "99" })), Truth::Unknown);
/// assert_eq!(below.evaluate(&json!({})), Truth::Unknown);
///
/// let force = ArgumentRule::equals("/force", true)?.missing(Missing::Differs);
/// assert_eq!(force.evaluate(&json!({})), Truth::False);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentRule {
    path: Path,
    test: Test,
    missing: Missing,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Equals(Value),
    OneOf(Vec<Value>),
    Glob(Pattern),
    Prefix(String),
    Within(String),
    Shell(Vec<ShellPattern>),
    LessThan(Number),
    AtMost(Number),
    GreaterThan(Number),
    AtLeast(Number),
}

impl ArgumentRule {
    fn new(path: &str, test: Test) -> Result<Self, String> {
        Ok(Self { path: Path::new(path)?, test, missing: Missing::Unknown })
    }

    /// The argument is this value.
    ///
    /// # Errors
    ///
    /// If `path` is not a JSON pointer; so do all the constructors.
    pub fn equals(path: &str, value: impl Into<Value>) -> Result<Self, String> {
        Self::new(path, Test::Equals(value.into()))
    }

    /// The argument is one of these values.
    ///
    /// # Errors
    ///
    /// If `path` is not a JSON pointer.
    pub fn one_of(path: &str, values: impl IntoIterator<Item = impl Into<Value>>) -> Result<Self, String> {
        Self::new(path, Test::OneOf(values.into_iter().map(Into::into).collect()))
    }

    /// The argument is a text that fits this [`Pattern`].
    ///
    /// # Errors
    ///
    /// If `path` is not a JSON pointer, or `pattern` not a pattern.
    pub fn glob(path: &str, pattern: &str) -> Result<Self, String> {
        Self::new(path, Test::Glob(Pattern::new(pattern).map_err(|error| error.to_string())?))
    }

    /// The argument is a text that begins so.
    ///
    /// # Errors
    ///
    /// If `path` is not a JSON pointer.
    pub fn prefix(path: &str, prefix: impl Into<String>) -> Result<Self, String> {
        Self::new(path, Test::Prefix(prefix.into()))
    }

    /// The argument is a path of a file beneath this directory, as far as its text tells; symbolic links are not followed.
    ///
    /// # Errors
    ///
    /// If `path` is not a JSON pointer.
    pub fn within(path: &str, directory: impl Into<String>) -> Result<Self, String> {
        Self::new(path, Test::Within(directory.into()))
    }

    /// The argument is a shell command, every part of which fits one of these patterns. See [`ShellPattern`].
    ///
    /// # Errors
    ///
    /// If `path` is not a JSON pointer.
    pub fn shell(path: &str, patterns: impl IntoIterator<Item = ShellPattern>) -> Result<Self, String> {
        Self::new(path, Test::Shell(patterns.into_iter().collect()))
    }

    /// The argument is a number, at most this one.
    ///
    /// # Errors
    ///
    /// If `path` is not a JSON pointer.
    pub fn at_most(path: &str, most: impl Into<Number>) -> Result<Self, String> {
        Self::new(path, Test::AtMost(most.into()))
    }

    /// The argument is a number, at least this one.
    ///
    /// # Errors
    ///
    /// If `path` is not a JSON pointer.
    pub fn at_least(path: &str, least: impl Into<Number>) -> Result<Self, String> {
        Self::new(path, Test::AtLeast(least.into()))
    }

    /// Sets what an argument that is not there means.
    #[must_use]
    pub const fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Whether the rule holds for these arguments.
    #[must_use]
    pub fn evaluate(&self, arguments: &Value) -> Truth {
        self.path.test(arguments, self.missing, &|value| self.test.holds(value))
    }

    /// Where the argument stands.
    pub(super) const fn path(&self) -> &Path {
        &self.path
    }
}

impl Test {
    fn holds(&self, value: &Value) -> Truth {
        use std::cmp::Ordering::{Greater, Less};

        match (self, value) {
            (Self::Equals(wanted), value) => number::equal(wanted, value),
            (Self::OneOf(wanted), value) => {
                // A null among other values says that nothing may stand there, and nothing about what does.
                let told = wanted.iter().filter(|wanted| !wanted.is_null() || value.is_null());
                told.map(|wanted| number::equal(wanted, value)).fold(Truth::False, Truth::or)
            }
            (Self::Glob(pattern), Value::String(text)) => pattern.matches(text).into(),
            (Self::Prefix(prefix), Value::String(text)) => text.starts_with(prefix.as_str()).into(),
            (Self::Within(directory), Value::String(text)) => within(directory, text),
            (Self::Shell(patterns), Value::String(text)) => shell::all_fit(patterns, text),
            (Self::LessThan(limit), Value::Number(n)) => ordered(n, limit, |order| order == Less),
            (Self::AtMost(limit), Value::Number(n)) => ordered(n, limit, |order| order != Greater),
            (Self::GreaterThan(limit), Value::Number(n)) => ordered(n, limit, |order| order == Greater),
            (Self::AtLeast(limit), Value::Number(n)) => ordered(n, limit, |order| order != Less),
            _ => Truth::Unknown,
        }
    }
}

fn ordered(n: &Number, limit: &Number, holds: fn(std::cmp::Ordering) -> bool) -> Truth {
    number::compare(n, limit).map_or(Truth::Unknown, |order| holds(order).into())
}

fn within(directory: &str, path: &str) -> Truth {
    let cannot_tell = |text: &str| text.contains(['\\', '\0']) || text.starts_with('~') || text.split('/').any(|part| part == "..");
    if cannot_tell(directory) || cannot_tell(path) || directory.starts_with('/') != path.starts_with('/') {
        return Truth::Unknown;
    }
    let mut inner = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    directory.split('/').filter(|part| !part.is_empty() && *part != ".").all(|part| inner.next() == Some(part)).into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    path: String,
    #[serde(default, deserialize_with = "given")]
    equals: Option<Value>,
    one_of: Option<Vec<Value>>,
    glob: Option<Pattern>,
    prefix: Option<String>,
    within: Option<String>,
    shell: Option<Vec<ShellPattern>>,
    less_than: Option<Number>,
    at_most: Option<Number>,
    greater_than: Option<Number>,
    at_least: Option<Number>,
    #[serde(default)]
    missing: Missing,
}

/// A `null` that is given is a value like any other.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl<'de> Deserialize<'de> for ArgumentRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        let at = format!("the argument `{}`", cut(&raw.path));
        let tests = [
            raw.equals.map(Test::Equals),
            raw.one_of.map(Test::OneOf),
            raw.glob.map(Test::Glob),
            raw.prefix.map(Test::Prefix),
            raw.within.map(Test::Within),
            raw.shell.map(Test::Shell),
            raw.less_than.map(Test::LessThan),
            raw.at_most.map(Test::AtMost),
            raw.greater_than.map(Test::GreaterThan),
            raw.at_least.map(Test::AtLeast),
        ];
        let mut tests = tests.into_iter().flatten();
        let (Some(test), None) = (tests.next(), tests.next()) else {
            return Err(D::Error::custom(format!("{at} needs exactly one test, such as `equals` or `glob`")));
        };
        let empty = match &test {
            Test::OneOf(values) => values.is_empty(),
            Test::Shell(patterns) => patterns.is_empty(),
            Test::Prefix(text) | Test::Within(text) => text.is_empty(),
            _ => false,
        };
        if empty {
            return Err(D::Error::custom(format!("{at} has an empty test, which says nothing")));
        }
        let path = Path::new(&raw.path).map_err(D::Error::custom)?;
        Ok(Self { path, test, missing: raw.missing })
    }
}

impl Serialize for ArgumentRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("path", &self.path.to_string())?;
        match &self.test {
            Test::Equals(value) => map.serialize_entry("equals", value)?,
            Test::OneOf(values) => map.serialize_entry("one_of", values)?,
            Test::Glob(pattern) => map.serialize_entry("glob", pattern)?,
            Test::Prefix(text) => map.serialize_entry("prefix", text)?,
            Test::Within(text) => map.serialize_entry("within", text)?,
            Test::Shell(patterns) => map.serialize_entry("shell", patterns)?,
            Test::LessThan(limit) => map.serialize_entry("less_than", limit)?,
            Test::AtMost(limit) => map.serialize_entry("at_most", limit)?,
            Test::GreaterThan(limit) => map.serialize_entry("greater_than", limit)?,
            Test::AtLeast(limit) => map.serialize_entry("at_least", limit)?,
        }
        if self.missing != Missing::Unknown {
            map.serialize_entry("missing", &self.missing)?;
        }
        map.end()
    }
}
