use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{
    layer::permission::{ArgumentRule, Truth},
    model::Principal,
    select::ToolSelector,
    tool::ToolEntry,
};

/// Which calls need how strong a sign-in, and how recent a one.
///
/// It is about a call if the tool is selected and every argument rule holds, or [cannot be told](Truth) not to. A rule without `acr` and
/// without `max_age` asks for a sign-in of any kind.
///
/// ```
/// use std::time::Duration;
/// use toolstack::{layer::{permission::ArgumentRule, step_up::StepUpRule}, select::ToolSelector};
///
/// let rule = StepUpRule::new(ToolSelector::new().name("bank.transfer")?)
///     .argument(ArgumentRule::at_least("/amount", 1000)?)
///     .acr(["urn:example:mfa"])
///     .max_age(Duration::from_secs(300));
/// let from_file: StepUpRule = serde_json::from_str(
///     r#"{"tools":{"names":["bank.transfer"]},"arguments":[{"path":"/amount","at_least":1000}],"acr":["urn:example:mfa"],"max_age":300}"#,
/// )?;
/// assert_eq!(rule, from_file);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StepUpRule {
    /// Which tools.
    #[serde(skip_serializing_if = "ToolSelector::is_any")]
    pub tools: ToolSelector,
    /// Which arguments: all of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<ArgumentRule>,
    /// Authentication context classes, any one of which will do, the preferred one first. None for any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acr: Vec<String>,
    /// How long ago the sign-in may be, in seconds in a file. None for any time.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "to_seconds", deserialize_with = "from_seconds")]
    pub max_age: Option<Duration>,
}

fn to_seconds<S: Serializer>(age: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    age.map(|age| age.as_secs()).serialize(serializer)
}

fn from_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_secs))
}

impl StepUpRule {
    /// A rule about every call of these tools.
    #[must_use]
    pub fn new(tools: ToolSelector) -> Self {
        Self { tools, ..Self::default() }
    }

    /// Adds what has to hold for an argument.
    #[must_use]
    pub fn argument(mut self, argument: ArgumentRule) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Asks for one of these authentication context classes.
    #[must_use]
    pub fn acr(mut self, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.acr.extend(values.into_iter().map(Into::into));
        self
    }

    /// Asks for a sign-in no longer ago than this.
    #[must_use]
    pub const fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// Whether it is about the tool, or about one of which only the name is known.
    pub(super) fn selects(&self, name: &str, tool: Option<&ToolEntry>) -> bool {
        tool.map_or_else(|| self.tools.matches_unknown(name), |tool| self.tools.matches(tool))
    }

    /// Whether it is about these arguments, as far as that can be told.
    pub(super) fn is_about(&self, arguments: Option<&Value>) -> bool {
        let Some(arguments) = arguments else { return true };
        self.arguments.iter().all(|rule| rule.evaluate(arguments) != Truth::False)
    }

    /// Whether the sign-in of the principal will do.
    pub(super) fn is_met(&self, principal: &Principal, now: SystemTime, leeway: Duration) -> bool {
        let strong = self.acr.is_empty() || principal.acr.as_ref().is_some_and(|acr| self.acr.contains(acr));
        let age = principal.auth_time.map(|signed_in| now.duration_since(signed_in).map_err(|error| error.duration()));
        let recent = match (age, self.max_age) {
            // A sign-in that is still to come is none.
            (Some(Err(ahead)), _) => ahead <= leeway,
            (Some(Ok(age)), Some(most)) => age <= most.saturating_add(leeway),
            (None, Some(_)) => false,
            (_, None) => true,
        };
        !principal.is_anonymous() && strong && recent
    }
}
