use std::{fmt, sync::Arc, time::Duration};

use arc_swap::{ArcSwap, ArcSwapOption};
use tower_layer::Layer;

use super::{Approver, Decided, Effect, OnSwap, Permission, PermissionHandle, PolicyEngine, Reentry, Rules, judge::Judge};
use crate::{
    layer::around::{Policed, PolicyLayer},
    store::{GrantStore, MemoryGrants},
};

/// Decides whether a tool runs; see the [module](super).
#[must_use = "a layer does nothing until it wraps a service"]
#[derive(Clone)]
pub struct PermissionLayer {
    policy: Permission,
}

/// A service that decides whether a tool runs.
pub type PermissionService<S> = Policed<S, Permission>;

impl PermissionLayer {
    /// How long an approver has to answer, unless [`ask_within`](Self::ask_within) says otherwise.
    pub const ASK_WITHIN: Duration = Duration::from_secs(10 * 60);

    /// Decides by these rules, and so about calls that no rule is about. Nobody is asked until [`ask`](Self::ask) says whom.
    pub fn new(rules: Rules, unmatched: Effect) -> Self {
        let policy = Permission {
            judge: Arc::new(ArcSwap::from_pointee(Judge::new(rules, unmatched))),
            approver: Arc::new(ArcSwapOption::empty()),
            reentry: None,
            engine: None,
            grants: Arc::new(MemoryGrants::new()),
            observer: None,
            timeout: Self::ASK_WITHIN,
            on_swap: OnSwap::default(),
            enforced: true,
        };
        Self { policy }
    }

    /// Asks this approver where a rule says `ask`, while the call waits.
    pub fn ask(self, approver: impl Approver) -> Self {
        self.policy.approver.store(Some(Arc::new(Box::new(approver))));
        self
    }

    /// Asks by answering the call with a question, where no approver is there to be asked while it waits. See [`Reentry`].
    pub fn ask_by_reentry(mut self, reentry: Reentry) -> Self {
        self.policy.reentry = Some(Arc::new(reentry));
        self
    }

    /// Sets how long an approver has to answer. The deadline of the call counts as well.
    pub const fn ask_within(mut self, time: Duration) -> Self {
        self.policy.timeout = time;
        self
    }

    /// Gives a policy engine a say beside the rules: the stricter of the two counts.
    pub fn engine(mut self, engine: impl PolicyEngine) -> Self {
        self.policy.engine = Some(Arc::new(engine));
        self
    }

    /// Keeps answers that are to be remembered there, and not in this layer's memory.
    pub fn grants(mut self, store: impl GrantStore) -> Self {
        self.policy.grants = Arc::new(store);
        self
    }

    /// Tells each decision, whether or not the tool runs afterwards. The observer changes nothing; it has to be quick.
    pub fn observe(mut self, observer: impl Fn(&Decided<'_>) + Send + Sync + 'static) -> Self {
        self.policy.observer = Some(Arc::new(observer));
        self
    }

    /// Decides and tells, and lets every call through. Nobody is asked and nothing hidden.
    pub const fn audit_only(mut self) -> Self {
        self.policy.enforced = false;
        self
    }

    /// Sets what happens to calls that wait for an answer when the rules are swapped.
    pub const fn on_swap(mut self, on_swap: OnSwap) -> Self {
        self.policy.on_swap = on_swap;
        self
    }

    /// What swaps the rules and the approver while calls are in flight, explains, and lists what is remembered. Take it when the layer
    /// is set up.
    #[must_use]
    pub fn handle(&self) -> PermissionHandle {
        PermissionHandle::new(self.policy.clone())
    }
}

impl PermissionLayer {
    pub(crate) fn into_policy(self) -> Permission {
        self.policy
    }
}

impl<S> Layer<S> for PermissionLayer {
    type Service = PermissionService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PolicyLayer::new(self.policy.clone()).layer(inner)
    }
}

impl fmt::Debug for PermissionLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PermissionLayer").field(&self.policy).finish()
    }
}
