use std::{collections::HashSet, fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeSeed, ser::SerializeStruct};
use serde_json::Value;

use super::{Rule, path::cut};
use crate::{model::strict::Strict, router::Catalog};

/// A set of rules, checked. The order of the rules does not matter.
///
/// A file has one list, `rules`. A field that is not known, a key that stands twice, a list that is empty and so would mean everything, an
/// id that two rules have, and an example that comes out otherwise are errors, which name the rule; no rule is ever left out in silence.
///
/// ```
/// use toolstack::layer::permission::Rules;
///
/// let rules = Rules::from_json(r#"{"rules":[
///     {"id":"read","effect":"allow","tools":{"read_only":true}},
///     {"id":"no-etc","effect":"deny","arguments":[{"path":"/path","prefix":"/etc","missing":"differs"}],
///      "matches":[{"tool":"any","arguments":{"path":"/etc/passwd"}}]}
/// ]}"#)?;
/// assert_eq!(rules.iter().count(), 2);
///
/// let error = Rules::from_json(r#"{"rules":[{"id":"read","effect":"alow"}]}"#).unwrap_err();
/// assert!(error.to_string().starts_with("the rule `read`: "));
/// # Ok::<(), toolstack::layer::permission::RulesError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(Arc<[Rule]>);

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// The file is not read at all.
    #[error("the rules cannot be read: {0}")]
    Unreadable(String),
    /// One rule is wrong.
    #[error("the rule {rule}: {why}")]
    #[non_exhaustive]
    Rule {
        /// Its id in backquotes, or its place, counted from 1, with a `#`.
        rule: String,
        /// What is wrong with it.
        why: String,
    },
    /// Rules select no tool of the catalog.
    #[error("no tool is selected by {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "))]
    Unmatched(Vec<UnmatchedRule>),
}

/// A rule that selects no tool, as one with a misspelt name does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnmatchedRule {
    /// Its id.
    pub rule: String,
    /// The names that it asks for.
    pub names: Vec<String>,
    /// A name of a tool that is nearly one of these.
    pub did_you_mean: Option<String>,
}

impl fmt::Display for UnmatchedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rule `{}`", self.rule)?;
        if !self.names.is_empty() {
            write!(f, " ({})", self.names.join(", "))?;
        }
        self.did_you_mean.as_ref().map_or(Ok(()), |name| write!(f, ", did you mean `{name}`?"))
    }
}

impl Rules {
    /// The most rules there may be, and the longest id, in bytes.
    pub const MAX: (usize, usize) = (10_000, 128);

    /// No rules.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Checks these rules.
    ///
    /// # Errors
    ///
    /// If one has no id or that of another, or an example comes out otherwise than it says.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, RulesError> {
        let rules: Arc<[Rule]> = rules.into_iter().collect();
        if rules.len() > Self::MAX.0 {
            return Err(RulesError::Unreadable(format!("there are {}, and at most {} are taken", rules.len(), Self::MAX.0)));
        }
        let mut ids = HashSet::new();
        for (at, rule) in rules.iter().enumerate() {
            let wrong = |why: String| Err(RulesError::Rule { rule: place(at, Some(&rule.id)), why });
            if rule.id.is_empty() || rule.id.len() > Self::MAX.1 {
                return wrong(format!("an id has 1 to {} bytes", Self::MAX.1));
            }
            if !ids.insert(rule.id.as_str()) {
                return wrong("another rule has this id".to_owned());
            }
            for (examples, wanted) in [(&rule.matches, true), (&rule.does_not_match, false)] {
                for (number, example) in examples.iter().enumerate() {
                    let list = if wanted { "matches" } else { "does_not_match" };
                    match example.affected_by(rule) {
                        Ok(affected) if affected == wanted => {}
                        Ok(_) if wanted => return wrong(format!("it takes no effect on its example {} of `{list}`", number + 1)),
                        Ok(_) => return wrong(format!("it takes effect on its example {} of `{list}`", number + 1)),
                        Err(why) => return wrong(format!("its example {} of `{list}`: {why}", number + 1)),
                    }
                }
            }
        }
        Ok(Self(rules))
    }

    /// Reads rules from JSON.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and for whatever is not as the file should be.
    pub fn from_json(json: &str) -> Result<Self, RulesError> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let unreadable = |error: serde_json::Error| RulesError::Unreadable(error.to_string());
        let file = File::deserialize(&mut deserializer).map_err(unreadable)?;
        deserializer.end().map_err(unreadable)?;
        file.check()
    }

    /// Reads a list of rules as [`Deserialize`] reads the one in a file.
    pub(crate) fn of_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rules = Vec::<Unread>::deserialize(deserializer)?;
        File { rules }.check().map_err(serde::de::Error::custom)
    }

    /// The rules.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.0.iter()
    }

    pub(super) fn shared(&self) -> &Arc<[Rule]> {
        &self.0
    }

    /// The rules that select none of these tools.
    #[must_use]
    pub fn check(&self, catalog: &Catalog) -> Vec<UnmatchedRule> {
        let list = catalog.list();
        let tools: Vec<_> = list.names().filter_map(|name| catalog.get(name)).collect();
        let unmatched = self.0.iter().filter(|rule| !tools.iter().any(|tool| rule.tools.matches(tool)));
        unmatched
            .map(|rule| {
                let names: Vec<String> = rule.tools.names.iter().map(ToString::to_string).collect();
                let near = names.iter().flat_map(|asked| list.names().map(move |name| (distance(asked, name), name)));
                let nearest = near.filter(|(distance, name)| *distance <= 1 + name.len() / 8).min();
                UnmatchedRule { rule: rule.id.clone(), did_you_mean: nearest.map(|(_, name)| name.to_owned()), names }
            })
            .collect()
    }

    /// As [`check`](Self::check), as an error.
    ///
    /// # Errors
    ///
    /// If a rule selects none of these tools.
    pub fn require(&self, catalog: &Catalog) -> Result<(), RulesError> {
        let unmatched = self.check(catalog);
        if unmatched.is_empty() { Ok(()) } else { Err(RulesError::Unmatched(unmatched)) }
    }
}

/// How many letters have to be put in, left out, changed or swapped with the next to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 16 || a.len() > 128 {
        return usize::MAX;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let mut least = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

fn place(at: usize, id: Option<&str>) -> String {
    match id {
        Some(id) if !id.is_empty() => format!("`{}`", cut(id)),
        _ => format!("#{}", at + 1),
    }
}

/// The file, its rules not looked at yet, so that an error can name the rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rules: Vec<Unread>,
}

struct Unread(Value);

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Strict.deserialize(deserializer).map(Self)
    }
}

impl File {
    fn check(self) -> Result<Rules, RulesError> {
        let read = |(at, Unread(value)): (usize, Unread)| {
            let rule = place(at, value.get("id").and_then(Value::as_str));
            let parts = [Some(&value), value.get("tools"), value.get("principal")];
            if !parts.into_iter().flatten().all(Value::is_object) {
                let why = "it, its `tools` and its `principal` have to be objects".to_owned();
                return Err(RulesError::Rule { rule, why });
            }
            if let Some(path) = without_condition(&value) {
                let why = format!("`{path}` is an empty list or null, which would select everything; leave it out or fill it");
                return Err(RulesError::Rule { rule, why });
            }
            serde_json::from_value(value).map_err(|error: serde_json::Error| RulesError::Rule { rule, why: error.to_string() })
        };
        let rules: Result<Vec<Rule>, _> = self.rules.into_iter().enumerate().map(read).collect();
        Rules::new(rules?)
    }
}

/// A condition in which nothing stands.
fn without_condition(rule: &Value) -> Option<String> {
    let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if rule.get("arguments").is_some_and(empty) {
        return Some("arguments".to_owned());
    }
    ["tools", "principal"].into_iter().find_map(|part| {
        let fields = rule.get(part)?.as_object()?;
        fields.iter().find(|(_, value)| empty(value)).map(|(key, _)| format!("{part}.{key}"))
    })
}

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut file = serializer.serialize_struct("Rules", 1)?;
        file.serialize_field("rules", &self.0)?;
        file.end()
    }
}

impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        File::deserialize(deserializer)?.check().map_err(serde::de::Error::custom)
    }
}
