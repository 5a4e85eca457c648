use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;

use super::{
    event::{AfterCall, BeforeCall, Ended, Listed, Request},
    halt::Halt,
    when::Event,
};
use crate::{error::BoxError, select::ToolSelector};

/// One hook: a name, when it runs, for which tools, and what it does.
///
/// ```
/// use std::time::Duration;
/// use toolstack::{layer::hooks::{Halt, Hook}, select::ToolSelector};
///
/// let writers = Hook::before("no_writes", |_| Err(Halt::forbidden())).only(ToolSelector::new().read_only(false));
/// let lookup = Hook::before_async("lookup", |call| Box::pin(async move { call.remark("Looked up."); Ok(()) }))
///     .timeout(Duration::from_secs(2))
///     .fail_open();
/// # let _ = (writers, lookup);
/// ```
#[must_use = "a hook does nothing until a layer has it"]
#[derive(Clone)]
pub struct Hook {
    pub(super) name: Cow<'static, str>,
    pub(super) event: Event,
    pub(super) act: Act,
    pub(super) only: Option<Box<ToolSelector>>,
    timeout: Timeout,
    pub(super) fail_open: bool,
    /// Whether it takes its time.
    pub(super) waits: bool,
    failures: Arc<AtomicU64>,
}

#[derive(Clone, Copy)]
enum Timeout {
    Default,
    Set(Duration),
    Never,
}

/// Why a hook cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// Its name is empty, or longer than 128 bytes.
    #[error("the name of a hook has 1 to 128 bytes; this one has {length}")]
    #[non_exhaustive]
    Name {
        /// How long it is.
        length: usize,
    },
    /// There is one of that name at that event.
    #[error("there are two hooks `{name}` at {event}")]
    #[non_exhaustive]
    Duplicate {
        /// The name.
        name: String,
        /// The event.
        event: Event,
    },
    /// Its timeout is zero, so it could never answer.
    #[error("the timeout of the hook `{name}` is zero; it could never answer")]
    #[non_exhaustive]
    ZeroTimeout {
        /// The name.
        name: String,
    },
    /// It has a timeout, and does not wait.
    #[error("the hook `{name}` does not wait, so it cannot have a timeout; make it an async one")]
    #[non_exhaustive]
    TimeoutOfSync {
        /// The name.
        name: String,
    },
    /// It is about some tools only, at an event at which the tool is not known yet.
    #[error("the hook `{name}` is about some tools only, and at before_request no tool is known yet; use `before`")]
    #[non_exhaustive]
    NoToolYet {
        /// The name.
        name: String,
    },
    /// It is an observer, which has no say, and is told to fail open.
    #[error("the hook `{name}` is an observer; its failure never changes anything")]
    #[non_exhaustive]
    ObserverFailsOpen {
        /// The name.
        name: String,
    },
}

/// What a hook decides: nothing against it, or to stop the request.
pub(super) type Flow = Result<(), Halt>;

pub(super) enum Run<N: ?Sized, L: ?Sized> {
    /// At once.
    Now(Arc<N>),
    /// Takes its time.
    Later(Arc<L>),
}

impl<N: ?Sized, L: ?Sized> Clone for Run<N, L> {
    fn clone(&self) -> Self {
        match self {
            Self::Now(run) => Self::Now(Arc::clone(run)),
            Self::Later(run) => Self::Later(Arc::clone(run)),
        }
    }
}

#[derive(Clone)]
pub(super) enum Act {
    Request(Run<dyn Fn(&mut Request<'_>) -> Flow + Send + Sync, dyn for<'a> Fn(&'a mut Request<'_>) -> BoxFuture<'a, Flow> + Send + Sync>),
    List(Run<dyn Fn(&mut Listed<'_>) -> Flow + Send + Sync, dyn for<'a> Fn(&'a mut Listed<'_>) -> BoxFuture<'a, Flow> + Send + Sync>),
    Before(
        Run<dyn Fn(&mut BeforeCall<'_>) -> Flow + Send + Sync, dyn for<'a> Fn(&'a mut BeforeCall<'_>) -> BoxFuture<'a, Flow> + Send + Sync>,
    ),
    After(
        Run<dyn Fn(&mut AfterCall<'_>) -> Flow + Send + Sync, dyn for<'a> Fn(&'a mut AfterCall<'_>) -> BoxFuture<'a, Flow> + Send + Sync>,
    ),
    Observe(
        Run<
            dyn Fn(&Ended<'_>) -> Option<BoxError> + Send + Sync,
            dyn Fn(Ended<'static>) -> BoxFuture<'static, Option<BoxError>> + Send + Sync,
        >,
    ),
}

impl Act {
    const fn waits(&self) -> bool {
        matches!(
            self,
            Self::Request(Run::Later(_))
                | Self::List(Run::Later(_))
                | Self::Before(Run::Later(_))
                | Self::After(Run::Later(_))
                | Self::Observe(Run::Later(_))
        )
    }
}

/// What an observer says of itself when it has done: nothing, or that it failed.
pub trait Observed: sealed::Sealed {
    #[doc(hidden)]
    fn failure(self) -> Option<BoxError>;
}

#[allow(unnameable_types, reason = "sealed: nobody else implements the trait")]
mod sealed {
    pub trait Sealed {}

    impl Sealed for () {}
    impl<E> Sealed for Result<(), E> {}
}

impl Observed for () {
    fn failure(self) -> Option<BoxError> {
        None
    }
}

impl<E: Into<BoxError>> Observed for Result<(), E> {
    fn failure(self) -> Option<BoxError> {
        self.err().map(Into::into)
    }
}

macro_rules! deciding {
    ($($(#[$doc:meta])* $now:ident, $later:ident: $act:ident($event:ident) at $when:ident;)*) => {
        impl Hook {$(
            $(#[$doc])*
            pub fn $now<F>(name: impl Into<Cow<'static, str>>, hook: F) -> Self
            where
                F: Fn(&mut $event<'_>) -> Result<(), Halt> + Send + Sync + 'static,
            {
                Self::new(name.into(), Event::$when, Act::$act(Run::Now(Arc::new(hook))))
            }

            #[doc = concat!("As [`", stringify!($now), "`](Self::", stringify!($now), "), by a hook that takes its time: `|event| Box::pin(async move { .. })`.")]
            pub fn $later<F>(name: impl Into<Cow<'static, str>>, hook: F) -> Self
            where
                F: for<'a> Fn(&'a mut $event<'_>) -> BoxFuture<'a, Result<(), Halt>> + Send + Sync + 'static,
            {
                Self::new(name.into(), Event::$when, Act::$act(Run::Later(Arc::new(hook))))
            }
        )*}
    };
}

deciding! {
    /// Runs before anything else, for every operation. It may hand values inward and halt.
    before_request, before_request_async: Request(Request) at BeforeRequest;
    /// Runs over the tools of a list, and over the one tool of a call before the call goes on. It may take tools away, and halt.
    after_list, after_list_async: List(Listed) at AfterList;
    /// Runs before the tool does. It may rewrite arguments, hand values inward, halt, and answer in the tool's place.
    before, before_async: Before(BeforeCall) at Before;
    /// Runs over the result of a call. It may rewrite it, and halt, so that it is not given.
    after, after_async: After(AfterCall) at After;
}

macro_rules! observing {
    ($($(#[$doc:meta])* $now:ident, $later:ident at $when:ident;)*) => {
        impl Hook {$(
            $(#[$doc])*
            pub fn $now<F, R>(name: impl Into<Cow<'static, str>>, observer: F) -> Self
            where
                F: Fn(&Ended<'_>) -> R + Send + Sync + 'static,
                R: Observed,
            {
                Self::new(name.into(), Event::$when, Act::Observe(Run::Now(Arc::new(move |ended: &Ended<'_>| observer(ended).failure()))))
            }

            #[doc = concat!("As [`", stringify!($now), "`](Self::", stringify!($now), "), by an observer that takes its time.")]
            pub fn $later<F, Fut>(name: impl Into<Cow<'static, str>>, observer: F) -> Self
            where
                F: Fn(Ended<'static>) -> Fut + Send + Sync + 'static,
                Fut: Future<Output: Observed> + Send + 'static,
            {
                let observer = move |ended| -> BoxFuture<'static, Option<BoxError>> {
                    let observed = observer(ended);
                    Box::pin(async move { observed.await.failure() })
                };
                Self::new(name.into(), Event::$when, Act::Observe(Run::Later(Arc::new(observer))))
            }
        )*}
    };
}

observing! {
    /// Hears of each call that did what was asked.
    on_success, on_success_async at OnSuccess;
    /// Hears of each call that failed: the tool said so, something broke or took too long, or the caller gave up.
    on_error, on_error_async at OnError;
    /// Hears of each call that was not allowed: by a hook of this layer, whatever its reason, or by anything within. A tool that is not
    /// there counts, since one that is hidden looks the same; arguments that are not valid, and a timeout, do not.
    on_denied, on_denied_async at OnDenied;
    /// Hears of the end of every call, whatever it is, exactly once.
    on_finish, on_finish_async at OnFinish;
}

impl Hook {
    /// How long an async hook may take, unless [`timeout`](Self::timeout) says otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    fn new(name: Cow<'static, str>, event: Event, act: Act) -> Self {
        let waits = act.waits();
        Self { name, event, act, only: None, timeout: Timeout::Default, fail_open: false, waits, failures: Arc::new(AtomicU64::new(0)) }
    }

    /// Runs it for these tools only.
    pub fn only(mut self, tools: ToolSelector) -> Self {
        self.only = (!tools.is_any()).then(|| Box::new(tools));
        self
    }

    /// Bounds how long it may take; `None` for as long as it likes. A hook that takes longer has failed.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into().map_or(Timeout::Never, Timeout::Set);
        self
    }

    /// Goes on as if it were not there when it fails. What it changed until then is undone.
    pub const fn fail_open(mut self) -> Self {
        self.fail_open = true;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it runs.
    #[must_use]
    pub const fn event(&self) -> Event {
        self.event
    }

    pub(super) const fn limit(&self) -> Option<Duration> {
        match self.timeout {
            Timeout::Default => Some(Self::TIMEOUT),
            Timeout::Set(timeout) => Some(timeout),
            Timeout::Never => None,
        }
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failures(&self) -> &Arc<AtomicU64> {
        &self.failures
    }

    pub(super) fn check(&self) -> Result<(), HookError> {
        let name = || self.name.to_string();
        if self.name.is_empty() || self.name.len() > 128 {
            return Err(HookError::Name { length: self.name.len() });
        }
        match self.timeout {
            Timeout::Set(_) if !self.waits => return Err(HookError::TimeoutOfSync { name: name() }),
            Timeout::Set(Duration::ZERO) => return Err(HookError::ZeroTimeout { name: name() }),
            _ => {}
        }
        if self.event == Event::BeforeRequest && self.only.is_some() {
            return Err(HookError::NoToolYet { name: name() });
        }
        if matches!(self.act, Act::Observe(_)) && self.fail_open {
            return Err(HookError::ObserverFailsOpen { name: name() });
        }
        Ok(())
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Hook");
        out.field("name", &self.name).field("event", &self.event).field("async", &self.waits).field("fail_open", &self.fail_open);
        if let Some(only) = &self.only {
            out.field("only", only);
        }
        out.finish()
    }
}
