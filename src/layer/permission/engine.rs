use futures_util::future::BoxFuture;

use super::Effect;
use crate::{error::BoxError, model::ToolCall, tool::ToolEntry};

/// A policy engine that has a say beside the rules: of its verdict and theirs, the stricter one counts.
///
/// It cannot allow what a rule denies. What it fails to decide is refused. Any
/// `Fn(&ToolCall, &ToolEntry) -> Result<Opinion, BoxError>` is one.
pub trait PolicyEngine: Send + Sync + 'static {
    /// Judges a call.
    fn judge<'a>(&'a self, call: &'a ToolCall, tool: &'a ToolEntry) -> BoxFuture<'a, Result<Opinion, BoxError>>;
}

impl<F> PolicyEngine for F
where
    F: Fn(&ToolCall, &ToolEntry) -> Result<Opinion, BoxError> + Send + Sync + 'static,
{
    fn judge<'a>(&'a self, call: &'a ToolCall, tool: &'a ToolEntry) -> BoxFuture<'a, Result<Opinion, BoxError>> {
        Box::pin(std::future::ready(self(call, tool)))
    }
}

/// What a [`PolicyEngine`] says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opinion {
    /// What is to be done.
    pub effect: Effect,
    /// Why, for the model and the person to read.
    pub reason: Option<String>,
}

impl Opinion {
    /// This, without a reason.
    #[must_use]
    pub const fn new(effect: Effect) -> Self {
        Self { effect, reason: None }
    }

    /// Says why.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

impl From<Effect> for Opinion {
    fn from(effect: Effect) -> Self {
        Self::new(effect)
    }
}
