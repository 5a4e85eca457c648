use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    model::Principal,
    select::{PatternError, ToolSelector},
    tool::ToolEntry,
};

/// Which scopes callers need for which tools, and which scopes stand for others.
///
/// ```
/// use toolstack::layer::scopes::ScopeRules;
///
/// let rules = ScopeRules::new().named("files.write", ["files:write"])?.implies("admin", ["files:write"]);
/// let from_file: ScopeRules = serde_json::from_str(
///     r#"{"require":[{"tools":{"names":["files.write"]},"scopes":["files:write"]}],"implies":{"admin":["files:write"]}}"#,
/// )?;
/// assert_eq!(rules, from_file);
/// assert!(serde_json::from_str::<ScopeRules>(r#"{"requires":[]}"#).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ScopeRules {
    /// What callers need for tools. All rules about a tool count.
    pub require: Vec<ScopeRule>,
    /// Which scopes one scope stands for; and these may stand for others, also in a circle.
    #[serde(deserialize_with = "all_scopes")]
    pub implies: BTreeMap<String, BTreeSet<String>>,
    /// Tools that nobody may call, whatever their scopes.
    pub forbid: Vec<ToolSelector>,
    /// Whether a tool's own tags count: `scope:files:write` requires `files:write`. They do unless this says otherwise.
    pub declared: bool,
    /// Whether a tool is in no list of a caller who lacks scopes for it.
    pub hide: bool,
}

/// What callers need for some tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ScopeRule {
    /// Which tools.
    #[serde(default, skip_serializing_if = "ToolSelector::is_any")]
    pub tools: ToolSelector,
    /// All of these.
    #[serde(deserialize_with = "scopes")]
    pub scopes: BTreeSet<String>,
}

/// What a caller needs for one tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// No scope would help.
    Forbidden,
    /// All of these.
    Scopes(BTreeSet<String>),
}

impl Default for ScopeRules {
    fn default() -> Self {
        Self::new()
    }
}

impl ScopeRules {
    /// How a tag begins that requires a scope.
    pub const TAG: &str = "scope:";
    /// How many scopes are looked at to find one that stands for another.
    pub const MAX_IMPLIED: usize = 1024;

    /// No rule, but for what tools declare.
    #[must_use]
    pub fn new() -> Self {
        Self { require: Vec::new(), implies: BTreeMap::new(), forbid: Vec::new(), declared: true, hide: false }
    }

    /// Requires all of these scopes for these tools. A text with spaces in it is several scopes.
    #[must_use]
    pub fn require(mut self, tools: ToolSelector, scopes: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.require.push(ScopeRule { tools, scopes: split(scopes) });
        self
    }

    /// Requires all of these scopes for the tools whose names fit a [pattern](crate::select::Pattern).
    ///
    /// # Errors
    ///
    /// If it is not a pattern.
    pub fn named(self, pattern: &str, scopes: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, PatternError> {
        Ok(self.require(ToolSelector::new().name(pattern)?, scopes))
    }

    /// Says that who has `scope` has these as well.
    #[must_use]
    pub fn implies(mut self, scope: impl Into<String>, others: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.implies.entry(scope.into()).or_default().extend(split(others));
        self
    }

    /// Says that nobody may call these tools.
    #[must_use]
    pub fn forbid(mut self, tools: ToolSelector) -> Self {
        self.forbid.push(tools);
        self
    }

    /// Leaves out what tools declare themselves.
    #[must_use]
    pub const fn ignore_declared(mut self) -> Self {
        self.declared = false;
        self
    }

    /// Hides a tool from the lists of callers who lack scopes for it. A call is answered as before, so that a client can come back with
    /// more scopes; use [visibility](crate::layer::visibility) for tools whose existence is nobody's business.
    #[must_use]
    pub const fn hide(mut self) -> Self {
        self.hide = true;
        self
    }

    /// What a caller needs for this tool, or for one of which only the name is known.
    pub(super) fn need(&self, name: &str, tool: Option<&ToolEntry>) -> Need {
        let about = |tools: &ToolSelector| tool.map_or_else(|| tools.matches_unknown(name), |tool| tools.matches(tool));
        if self.forbid.iter().any(about) {
            return Need::Forbidden;
        }
        let mut needed: BTreeSet<String> = BTreeSet::new();
        for rule in self.require.iter().filter(|rule| about(&rule.tools)) {
            needed.extend(rule.scopes.iter().cloned());
        }
        if let Some(tool) = tool.filter(|_| self.declared) {
            needed.extend(split(tool.spec().tags.iter().filter_map(|tag| tag.strip_prefix(Self::TAG))));
        }
        Need::Scopes(needed)
    }

    /// Those of the scopes that the principal has neither itself nor by another one.
    pub(super) fn missing<'a>(&self, principal: &Principal, needed: &'a BTreeSet<String>) -> Vec<&'a str> {
        needed.iter().map(String::as_str).filter(|scope| !self.has(principal, scope)).collect()
    }

    fn has(&self, principal: &Principal, scope: &str) -> bool {
        if principal.has_scope(scope) {
            return true;
        }
        if self.implies.is_empty() {
            return false;
        }
        // From the scope that is needed to those that stand for it, each of them once.
        let (mut seen, mut next) = (BTreeSet::from([scope]), vec![scope]);
        while let Some(wanted) = next.pop() {
            for (other, implied) in &self.implies {
                if implied.contains(wanted) && seen.len() <= Self::MAX_IMPLIED && seen.insert(other) {
                    if principal.has_scope(other) {
                        return true;
                    }
                    next.push(other);
                }
            }
        }
        false
    }
}

/// The scopes in these texts, each of which may hold several.
fn split(scopes: impl IntoIterator<Item = impl AsRef<str>>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for scopes in scopes {
        all.extend(scopes.as_ref().split_whitespace().map(str::to_owned));
    }
    all
}

fn scopes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    Vec::<String>::deserialize(deserializer).map(split)
}

fn all_scopes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, BTreeSet<String>>, D::Error> {
    let all = BTreeMap::<String, Vec<String>>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|(scope, others)| (scope, split(others))).collect())
}
