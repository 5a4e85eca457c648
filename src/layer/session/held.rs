use std::{fmt, sync::Arc};

use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::{
    error::Refusal,
    model::{Context, ToolCall},
    store::SessionGuard,
    tool::{FromCall, via},
};

/// The sessions that a call holds, by the name of the handle.
///
/// A tool function takes it as a parameter; a layer reads it from the [context](Self::of).
#[derive(Clone, Default)]
pub struct HeldSessions(Arc<SmallVec<[(SmolStr, SessionGuard); 2]>>);

impl HeldSessions {
    /// What the layers further out hold for this call; empty if none does.
    #[must_use]
    pub fn of(context: &Context) -> Self {
        context.extensions().get::<Self>().cloned().unwrap_or_default()
    }

    /// The session that this handle names.
    #[must_use]
    pub fn get(&self, handle: &str) -> Option<&SessionGuard> {
        self.0.iter().find(|(name, _)| name == handle).map(|(_, guard)| guard)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SessionGuard)> {
        self.0.iter().map(|(name, guard)| (name.as_str(), guard))
    }

    /// These, and in the place of those of the same handle the `newer` ones.
    pub(super) fn and(&self, newer: impl IntoIterator<Item = (SmolStr, SessionGuard)>) -> Self {
        let mut all: SmallVec<[_; 2]> = newer.into_iter().collect();
        let new = all.len();
        for (name, guard) in self.0.iter() {
            if !all[..new].iter().any(|(other, _)| other == name) {
                all.push((name.clone(), guard.clone()));
            }
        }
        Self(Arc::new(all))
    }
}

impl fmt::Debug for HeldSessions {
    /// The names of the handles. Ids may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl<S> FromCall<S, via::Call> for HeldSessions {
    fn from_call(call: &ToolCall, _: &S) -> Result<Self, Refusal> {
        Ok(Self::of(&call.context))
    }
}
