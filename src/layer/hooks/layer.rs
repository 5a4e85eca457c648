use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use tower_layer::Layer;

use super::{
    background::Background,
    event::{AfterCall, BeforeCall, Ended, Listed, Request},
    halt::Halt,
    hook::{Hook, HookError, Observed},
    policy::Hooks,
    set::{Limits, Set},
    when::Event,
};
use crate::layer::around::{Policed, PolicyLayer};

/// Runs hooks around requests; see the [module](super).
#[must_use = "a layer does nothing until it wraps a service"]
#[derive(Clone, Debug)]
pub struct HooksLayer {
    hooks: Vec<Hook>,
    background: Background,
    limits: Limits,
}

impl Default for HooksLayer {
    /// Without hooks.
    fn default() -> Self {
        Self::new()
    }
}

impl HooksLayer {
    /// Of how many calls async observers hear at once, and how many wait for their turn, unless
    /// [`observing`](Self::observing) says otherwise.
    pub const OBSERVING: (usize, usize) = (64, 1024);

    /// How many bytes the calls and responses that wait for their turn may take.
    const OBSERVING_BYTES: usize = 64 * 1024 * 1024;

    /// Without hooks.
    pub fn new() -> Self {
        let (at_once, waiting) = Self::OBSERVING;
        Self { hooks: Vec::new(), background: Background::default(), limits: Limits { at_once, waiting, bytes: Self::OBSERVING_BYTES } }
    }

    /// Lets async observers hear of so many ended calls at once, at least one, and so many more wait for their turn, in 64 MiB at most. Of
    /// further ones they do not hear, which is [counted](Background::dropped).
    pub fn observing(mut self, at_once: usize, waiting: usize) -> Self {
        (self.limits.at_once, self.limits.waiting) = (at_once.max(1), waiting);
        self
    }

    /// What async observers have still to hear: to wait for before the process ends, and to watch.
    #[must_use]
    pub fn background(&self) -> Background {
        self.background.clone()
    }

    /// Adds a hook, behind those of its event that are there.
    ///
    /// # Panics
    ///
    /// If it cannot be added; see [`HookError`].
    #[track_caller]
    pub fn hook(self, hook: Hook) -> Self {
        match self.try_hook(hook) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds a hook, behind those of its event that are there.
    ///
    /// # Errors
    ///
    /// If its name is empty or there is one of that name at that event, or if its settings do not fit what it is.
    pub fn try_hook(mut self, hook: Hook) -> Result<Self, HookError> {
        hook.check()?;
        if self.hooks.iter().any(|other| other.event == hook.event && other.name == hook.name) {
            return Err(HookError::Duplicate { name: hook.name.into_owned(), event: hook.event });
        }
        self.hooks.push(hook);
        Ok(self)
    }

    /// Tells how often each hook failed, in all stacks that this layer and its clones made. It knows the hooks that were added until now.
    #[must_use]
    pub fn failures(&self) -> Failures {
        Failures(self.hooks.iter().map(|hook| (hook.name.clone(), hook.event, Arc::clone(hook.failures()))).collect())
    }
}

macro_rules! setters {
    (decide { $($now:ident, $later:ident: $event:ident;)* } observe { $($on:ident, $on_later:ident;)* }) => {
        impl HooksLayer {
            $(
                #[doc = concat!("Adds [`Hook::", stringify!($now), "`] for all tools.\n\n# Panics\n\nAs [`hook`](Self::hook).")]
                #[track_caller]
                pub fn $now<F>(self, name: impl Into<Cow<'static, str>>, hook: F) -> Self
                where
                    F: Fn(&mut $event<'_>) -> Result<(), Halt> + Send + Sync + 'static,
                {
                    self.hook(Hook::$now(name, hook))
                }

                #[doc = concat!("Adds [`Hook::", stringify!($later), "`] for all tools.\n\n# Panics\n\nAs [`hook`](Self::hook).")]
                #[track_caller]
                pub fn $later<F>(self, name: impl Into<Cow<'static, str>>, hook: F) -> Self
                where
                    F: for<'a> Fn(&'a mut $event<'_>) -> BoxFuture<'a, Result<(), Halt>> + Send + Sync + 'static,
                {
                    self.hook(Hook::$later(name, hook))
                }
            )*
            $(
                #[doc = concat!("Adds [`Hook::", stringify!($on), "`] for all tools.\n\n# Panics\n\nAs [`hook`](Self::hook).")]
                #[track_caller]
                pub fn $on<F, R>(self, name: impl Into<Cow<'static, str>>, observer: F) -> Self
                where
                    F: Fn(&Ended<'_>) -> R + Send + Sync + 'static,
                    R: Observed,
                {
                    self.hook(Hook::$on(name, observer))
                }

                #[doc = concat!("Adds [`Hook::", stringify!($on_later), "`] for all tools.\n\n# Panics\n\nAs [`hook`](Self::hook).")]
                #[track_caller]
                pub fn $on_later<F, Fut>(self, name: impl Into<Cow<'static, str>>, observer: F) -> Self
                where
                    F: Fn(Ended<'static>) -> Fut + Send + Sync + 'static,
                    Fut: Future<Output: Observed> + Send + 'static,
                {
                    self.hook(Hook::$on_later(name, observer))
                }
            )*
        }
    };
}

setters! {
    decide {
        before_request, before_request_async: Request;
        after_list, after_list_async: Listed;
        before, before_async: BeforeCall;
        after, after_async: AfterCall;
    }
    observe {
        on_success, on_success_async;
        on_error, on_error_async;
        on_denied, on_denied_async;
        on_finish, on_finish_async;
    }
}

impl HooksLayer {
    pub(crate) fn into_policy(self) -> Hooks {
        Hooks::new(Set::new(&self.hooks, self.background, self.limits))
    }
}

impl<S> Layer<S> for HooksLayer {
    type Service = Policed<S, Hooks>;

    fn layer(&self, inner: S) -> Self::Service {
        PolicyLayer::new(self.clone().into_policy()).layer(inner)
    }
}

/// How often the hooks of a layer failed: by an error, a panic or by taking too long. A clone counts on.
#[derive(Clone)]
pub struct Failures(Arc<[(Cow<'static, str>, Event, Arc<AtomicU64>)]>);

impl Failures {
    /// Of the hook of that name, at all its events.
    #[must_use]
    pub fn of(&self, hook: &str) -> u64 {
        self.iter().filter(|(name, ..)| *name == hook).map(|(.., count)| count).sum()
    }

    /// Of all hooks.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iter().map(|(.., count)| count).sum()
    }

    /// One by one, in the order of registration.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Event, u64)> {
        self.0.iter().map(|(name, event, count)| (&**name, *event, count.load(Ordering::Relaxed)))
    }
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
