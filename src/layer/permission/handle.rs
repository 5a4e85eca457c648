use std::{fmt, sync::Arc};

use super::{Approval, Approver, Effect, Explanation, Permission, Rules, UnmatchedRule, judge::Judge};
use crate::{
    error::BoxError,
    model::ToolCall,
    router::Catalog,
    store::{Grant, GrantStore, Owner, PendingStore},
    tool::ToolEntry,
};

/// A hand on a [`PermissionLayer`](super::PermissionLayer) that is in a stack already.
#[derive(Clone)]
pub struct PermissionHandle {
    policy: Permission,
}

impl PermissionHandle {
    pub(super) const fn new(policy: Permission) -> Self {
        Self { policy }
    }

    /// Puts other rules in the place of those there are. Calls that begin from now on are judged by them, and those that wait for an
    /// answer as [`on_swap`](super::PermissionLayer::on_swap) says.
    pub fn set_rules(&self, rules: Rules) {
        let unmatched = self.policy.judge.load().unmatched;
        self.set_rules_and(rules, unmatched);
    }

    /// As [`set_rules`](Self::set_rules), with another decision about calls that no rule is about.
    pub fn set_rules_and(&self, rules: Rules, unmatched: Effect) {
        self.policy.judge.store(Arc::new(Judge::new(rules, unmatched)));
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.policy.judge.load().rules().clone()
    }

    /// Asks this approver from now on.
    pub fn set_approver(&self, approver: impl Approver) {
        self.policy.approver.store(Some(Arc::new(Box::new(approver))));
    }

    /// Asks no approver any more.
    pub fn remove_approver(&self) {
        self.policy.approver.store(None);
    }

    /// What the rules say about a call of this tool, and why. Engine and grants are not asked.
    #[must_use]
    pub fn explain(&self, call: &ToolCall, tool: &ToolEntry) -> Explanation {
        self.policy.judge.load().explain(tool, call)
    }

    /// The rules that select none of these tools.
    #[must_use]
    pub fn check(&self, catalog: &Catalog) -> Vec<UnmatchedRule> {
        self.rules().check(catalog)
    }

    /// What is remembered.
    #[must_use]
    pub fn grants(&self) -> &Arc<dyn GrantStore> {
        &self.policy.grants
    }

    /// What is remembered, for one owner or for all.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn list_grants(&self, owner: Option<&Owner>) -> Result<Vec<Grant>, BoxError> {
        self.policy.grants.list(owner).await
    }

    /// Forgets an answer; `false` if none of this id is remembered.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn revoke(&self, id: &str) -> Result<bool, BoxError> {
        self.policy.grants.revoke(id).await
    }

    /// The questions that wait for an answer, where the layer asks by [re-entry](super::Reentry).
    #[must_use]
    pub fn pending(&self) -> Option<&Arc<dyn PendingStore>> {
        self.policy.reentry.as_ref().map(|reentry| reentry.store())
    }

    /// Answers a question apart from the call: the caller finds the answer when it comes back. `false` if there is no such question, or it
    /// has an answer.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn answer(&self, id: &str, approval: Approval) -> Result<bool, BoxError> {
        match self.pending() {
            Some(pending) => pending.answer(id, approval).await,
            None => Ok(false),
        }
    }
}

impl fmt::Debug for PermissionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PermissionHandle").field(&self.policy).finish()
    }
}
