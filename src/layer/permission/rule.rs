use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ArgumentRule, Truth};
use crate::{
    model::{Arguments, Principal, ToolAnnotations, ToolName, ToolSpec},
    select::{Pattern, ToolSelector},
    tool::{Source, ToolEntry},
};

/// What is done with a call: of several verdicts the strictest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run.
    Deny,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

/// One rule: what is done with the calls that it is about.
///
/// It is about a call if the tool is selected, the principal fits and every argument rule holds. What is not asked for does not matter.
///
/// ```
/// use serde_json::json;
/// use toolstack::{layer::permission::{ArgumentRule, Effect, Example, Rule}, select::ToolSelector};
///
/// let rule = Rule::new("big-transfers", Effect::Ask)
///     .tools(ToolSelector::new().name("bank.transfer")?)
///     .argument(ArgumentRule::at_least("/amount", 1000)?)
///     .reason("a transfer of 1000 or more")
///     .matches(Example::new("bank.transfer", json!({ "amount": 5000 })))
///     .does_not_match(Example::new("bank.transfer", json!({ "amount": 5 })));
/// # let _ = rule; Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rule {
    /// Names it in errors, explanations and refusals.
    pub id: String,
    /// What is done with the calls that it is about.
    pub effect: Effect,
    /// Which tools.
    #[serde(default, skip_serializing_if = "ToolSelector::is_any")]
    pub tools: ToolSelector,
    /// Which arguments: all of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<ArgumentRule>,
    /// Whose calls.
    #[serde(default, skip_serializing_if = "PrincipalRule::is_any")]
    pub principal: PrincipalRule,
    /// Why, for the model and the person to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For a rule that asks: whether an answer may be remembered.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub remember: bool,
    /// Calls that it has to take effect on, checked when the rules are loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Example>,
    /// Calls that it must not take effect on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub does_not_match: Vec<Example>,
}

const fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_yes(yes: &bool) -> bool {
    *yes
}

impl Rule {
    /// A rule about every call.
    #[must_use]
    pub fn new(id: impl Into<String>, effect: Effect) -> Self {
        Self {
            id: id.into(),
            effect,
            tools: ToolSelector::new(),
            arguments: Vec::new(),
            principal: PrincipalRule::default(),
            reason: None,
            remember: true,
            matches: Vec::new(),
            does_not_match: Vec::new(),
        }
    }

    /// Sets which tools it is about.
    #[must_use]
    pub fn tools(mut self, tools: ToolSelector) -> Self {
        self.tools = tools;
        self
    }

    /// Adds what has to hold for an argument.
    #[must_use]
    pub fn argument(mut self, argument: ArgumentRule) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Sets whose calls it is about.
    #[must_use]
    pub fn principal(mut self, principal: PrincipalRule) -> Self {
        self.principal = principal;
        self
    }

    /// Says why.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Asks each time: no answer is remembered.
    #[must_use]
    pub const fn always_ask(mut self) -> Self {
        self.remember = false;
        self
    }

    /// Adds a call that it has to take effect on.
    #[must_use]
    pub fn matches(mut self, example: Example) -> Self {
        self.matches.push(example);
        self
    }

    /// Adds a call that it must not take effect on.
    #[must_use]
    pub fn does_not_match(mut self, example: Example) -> Self {
        self.does_not_match.push(example);
        self
    }

    /// Whether every argument rule holds; unknown for arguments that cannot be read.
    pub(super) fn holds(&self, arguments: Option<&Value>) -> Truth {
        if self.arguments.is_empty() {
            return Truth::True;
        }
        let Some(arguments) = arguments else { return Truth::Unknown };
        let mut all = Truth::True;
        for rule in &self.arguments {
            all = all.and(rule.evaluate(arguments));
            if all == Truth::False {
                break;
            }
        }
        all
    }

    /// Whether the rule takes effect where its arguments are so. What cannot be told denies and asks, and never allows.
    pub(super) const fn takes_effect(&self, arguments: Truth) -> bool {
        matches!((self.effect, arguments), (_, Truth::True) | (Effect::Ask | Effect::Deny, Truth::Unknown))
    }
}

/// Whose calls a rule is about. All that is asked for has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PrincipalRule {
    /// The subject fits one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<Pattern>,
    /// The issuer fits one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<Pattern>,
    /// It has all of these scopes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub scopes: BTreeSet<String>,
    /// It has one of these scopes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub any_scope: BTreeSet<String>,
    /// It has none of these scopes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub without_scopes: BTreeSet<String>,
    /// Nobody vouches for it, or somebody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<bool>,
}

impl PrincipalRule {
    /// About everybody.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it is about everybody.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }

    /// About those who have this scope, and those added before.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.insert(scope.into());
        self
    }

    /// About those who do not have this scope.
    #[must_use]
    pub fn without_scope(mut self, scope: impl Into<String>) -> Self {
        self.without_scopes.insert(scope.into());
        self
    }

    /// Whether it is about this one.
    #[must_use]
    pub fn matches(&self, principal: &Principal) -> bool {
        let issuer = principal.issuer.as_deref();
        (self.subjects.is_empty() || self.subjects.iter().any(|pattern| pattern.matches(&principal.subject)))
            && (self.issuers.is_empty() || issuer.is_some_and(|issuer| self.issuers.iter().any(|pattern| pattern.matches(issuer))))
            && self.scopes.iter().all(|scope| principal.has_scope(scope))
            && (self.any_scope.is_empty() || self.any_scope.iter().any(|scope| principal.has_scope(scope)))
            && !self.without_scopes.iter().any(|scope| principal.has_scope(scope))
            && self.anonymous.is_none_or(|anonymous| anonymous == principal.is_anonymous())
    }
}

/// A call to try a rule on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Example {
    /// The name of the tool.
    pub tool: String,
    /// The arguments.
    #[serde(default = "object")]
    pub arguments: Value,
    /// The tags of the tool.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// What the tool says of itself.
    #[serde(default, skip_serializing_if = "ToolAnnotations::is_empty")]
    pub annotations: ToolAnnotations,
    /// Where the tool comes from, if not from this program; it is not believed then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Who calls; nobody, if left out.
    #[serde(default)]
    pub principal: Principal,
}

fn object() -> Value {
    Value::Object(serde_json::Map::new())
}

impl Example {
    /// A call of a tool of this name with these arguments.
    #[must_use]
    pub fn new(tool: impl Into<String>, arguments: impl Into<Value>) -> Self {
        Self {
            tool: tool.into(),
            arguments: arguments.into(),
            tags: BTreeSet::new(),
            annotations: ToolAnnotations::default(),
            source: None,
            principal: Principal::anonymous(),
        }
    }

    /// The example, called by this one.
    #[must_use]
    pub fn by(mut self, principal: Principal) -> Self {
        self.principal = principal;
        self
    }

    /// Whether the rule takes effect on it.
    pub(super) fn affected_by(&self, rule: &Rule) -> Result<bool, String> {
        let mut spec = ToolSpec::new(ToolName::new(&self.tool).map_err(|error| error.to_string())?);
        spec.tags.clone_from(&self.tags);
        spec.annotations = self.annotations.clone();
        let source = self.source.clone().map_or(Source::LOCAL, Source::foreign);
        let tool = ToolEntry::new(spec.into(), source);
        let arguments = Arguments::from(self.arguments.clone());
        Ok(rule.tools.matches(&tool) && rule.principal.matches(&self.principal) && rule.takes_effect(rule.holds(readable(&arguments))))
    }
}

/// The arguments, if they are the object that they have to be.
pub(super) fn readable(arguments: &Arguments) -> Option<&Value> {
    arguments.value().ok().filter(|value| value.is_object())
}
