use std::fmt;

use serde::Serialize;

use super::{Effect, Rule};
use crate::model::ToolName;

/// What the rules say about a call, and what each of them has to do with it.
///
/// It names rules and paths, and holds no argument. `Display` is for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The tool.
    pub tool: String,
    /// What is done with the call.
    pub effect: Effect,
    /// What is done with calls that no rule is about.
    pub unmatched: Effect,
    /// What the policy engine says, where it is asked and is stricter than the rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The rules.
    pub rules: Vec<Considered>,
}

/// What one rule has to do with a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Considered {
    /// Its id.
    pub rule: String,
    /// What it is for.
    pub effect: Effect,
    /// What came of it.
    pub standing: Standing,
    /// Why there is such a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The arguments that it cannot tell about, by their paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// What came of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Standing {
    /// It says the same as the one that decides.
    Agrees,
    /// It would allow the call, and cannot tell whether it is about it.
    CannotTell,
    /// The verdict is its.
    Decides,
    /// It is about other arguments.
    OtherArguments,
    /// It is about other principals.
    OtherPrincipal,
    /// It is about other tools.
    OtherTool,
    /// It is about the call, and a stricter one won.
    Overruled,
}

impl Explanation {
    pub(super) fn new(tool: &ToolName, effect: Effect, unmatched: Effect) -> Self {
        Self { tool: tool.to_string(), effect, unmatched, engine: None, rules: Vec::new() }
    }

    pub(super) fn push(&mut self, rule: &Rule, standing: Standing, told: bool, unknown: impl FnOnce() -> Vec<String>) {
        let relevant = !matches!(standing, Standing::OtherTool | Standing::OtherPrincipal);
        self.rules.push(Considered {
            rule: rule.id.clone(),
            effect: rule.effect,
            standing,
            reason: rule.reason.clone(),
            unknown: if relevant && !told { unknown() } else { Vec::new() },
        });
    }

    /// The rule that decides; `None` where no rule is about the call.
    #[must_use]
    pub fn decides(&self) -> Option<&Considered> {
        self.rules.iter().find(|rule| rule.standing == Standing::Decides)
    }

    /// Why, in one line, for a person.
    #[must_use]
    pub fn why(&self) -> String {
        let verb = match self.effect {
            Effect::Allow => "allows it",
            Effect::Ask => "asks",
            Effect::Deny => "denies it",
        };
        match (&self.engine, self.decides()) {
            (Some(reason), _) => format!("the policy engine {verb}: {reason}"),
            (None, None) => "no rule is about it".to_owned(),
            (None, Some(Considered { rule, reason: None, .. })) => format!("the rule `{rule}` {verb}"),
            (None, Some(Considered { rule, reason: Some(reason), .. })) => format!("the rule `{rule}` {verb}: {reason}"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.effect, self.tool)?;
        if self.decides().is_none() {
            write!(f, "\n  no rule decides; calls that no rule is about: {}", self.unmatched)?;
        }
        for rule in &self.rules {
            let standing = match rule.standing {
                Standing::OtherTool => continue,
                Standing::Agrees => "agrees",
                Standing::CannotTell => "cannot tell, and so does not allow",
                Standing::Decides => "decides",
                Standing::OtherArguments => "is about other arguments",
                Standing::OtherPrincipal => "is about other principals",
                Standing::Overruled => "is overruled",
            };
            write!(f, "\n  {} `{}` {standing}", rule.effect, rule.rule)?;
            if !rule.unknown.is_empty() {
                write!(f, "; unknown: {}", rule.unknown.join(", "))?;
            }
            if let Some(reason) = &rule.reason {
                write!(f, " ({reason})")?;
            }
        }
        Ok(())
    }
}
