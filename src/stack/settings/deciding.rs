use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, Serialize};

use super::duration;
use crate::{
    layer::permission::{Effect, PermissionLayer, Rule, Rules},
    select::{Pattern, ToolSelector},
};

/// Tools that are hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Hide {
    /// Those whose name fits one of these.
    pub names: Vec<Pattern>,
    /// Those with one of these tags.
    pub tags: Vec<String>,
    /// But not from those who have all of these scopes. Without any, from everybody.
    pub unless_scopes: Vec<String>,
}

/// A [hook that is a program](crate::layer::hooks). Feature `process`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HookProgram {
    /// What it is called.
    pub name: String,
    /// When it runs.
    pub on: HookEvent,
    /// The program.
    pub program: PathBuf,
    /// Its arguments. No shell reads them.
    #[serde(default)]
    pub args: Vec<String>,
    /// Which tools it is about: all if nothing is said.
    #[serde(default, skip_serializing_if = "ToolSelector::is_any")]
    pub tools: ToolSelector,
    /// How long it may take.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Whether calls go on where it fails; they are refused if nothing is said.
    #[serde(default)]
    pub fail_open: bool,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookEvent {
    /// Before the tool.
    Before,
    /// Over its result.
    After,
}

/// What an argument that the model may not choose is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PinTo {
    /// The session of the context.
    Session,
    /// The subject of the principal. A call of nobody is refused.
    Subject,
}

/// The settings of [sessions](crate::layer::session). The store is given by code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Session {
    /// Arguments that may name a session.
    pub arguments: Vec<String>,
    /// Arguments that have to.
    pub required: Vec<String>,
    /// Whether sessions have to be open; they have if nothing is said.
    pub open: bool,
    /// Whether the store looks first what others did to a session.
    pub refresh: bool,
    /// Which tools it is about: all if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolSelector>,
}

impl Default for Session {
    fn default() -> Self {
        Self { arguments: Vec::new(), required: Vec::new(), open: true, refresh: false, tools: None }
    }
}

/// Arguments that have to be there and not `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Fields {
    /// Their names.
    pub names: Vec<String>,
    /// Whether an empty text, zero and `false` count as missing too, as in ADR-003.
    pub truthy: bool,
    /// Which tools it is about: all if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolSelector>,
}

/// The settings of [validation](crate::layer::validate). Feature `jsonschema`, or a validator that code gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Validate {
    /// What happens to structured results that are not valid.
    pub results: Results,
    /// Whether arguments that are not valid are put right where they can be. Not together with hooks: they would judge what the model sent,
    /// and another thing would run.
    pub repair: bool,
}

/// What happens to structured results that are not valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Results {
    /// They are refused.
    #[default]
    Refuse,
    /// They are given and marked.
    Mark,
    /// Nobody looks.
    Pass,
}

/// The settings of [permission](crate::layer::permission).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Permission {
    /// What happens to calls that no rule is about: a person is asked if nothing is said.
    pub unmatched: Effect,
    /// The rules, with their examples.
    #[serde(deserialize_with = "checked")]
    pub rules: Vec<Rule>,
    /// How a person is asked, where code gives no approver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskBy>,
    /// How long they have.
    #[serde(with = "duration")]
    pub ask_within: Duration,
    /// Whether it decides and tells, and lets every call through.
    pub audit_only: bool,
}

impl Default for Permission {
    fn default() -> Self {
        Self { unmatched: Effect::Ask, rules: Vec::new(), ask: None, ask_within: PermissionLayer::ASK_WITHIN, audit_only: false }
    }
}

/// Reads rules as strictly as a file of them, and checks them against their examples.
fn checked<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Rule>, D::Error> {
    Ok(Rules::of_list(deserializer)?.iter().cloned().collect())
}

/// How a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AskBy {
    /// By answering the call with a question; the caller calls again with the answer.
    Reentry,
    /// On the terminal of this program.
    Terminal,
}

/// The settings of the [timeout](crate::layer::timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Timeout {
    /// How long the tool may take: a minute if nothing is said. The time that a person thinks does not count.
    #[serde(with = "duration")]
    pub total: Duration,
    /// How long it may take without progress.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub idle: Option<Duration>,
}

impl Default for Timeout {
    fn default() -> Self {
        Self { total: Duration::from_secs(60), idle: None }
    }
}
