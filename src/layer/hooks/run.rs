//! Runs one hook, whatever it does.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};

use super::hook::{Flow, Hook};
use crate::error::BoxError;

/// How a hook failed, other than by an error of its own.
#[derive(Debug, thiserror::Error)]
enum HookFailure {
    #[error("the hook panicked: {0}")]
    Panicked(String),
    #[error("the hook took longer than {0:?}")]
    TimedOut(Duration),
    #[error("the hook's work was not begun: there is no runtime to run it")]
    NoRuntime,
}

fn panicked(panic: &(dyn Any + Send)) -> BoxError {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    HookFailure::Panicked(text.unwrap_or("with no text").to_owned()).into()
}

/// Runs what answers at once.
#[inline]
pub(super) fn now<T>(run: impl FnOnce() -> T) -> Result<T, BoxError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| panicked(&*panic))
}

/// Runs what takes its time, and not longer than it may.
pub(super) async fn later<'a, T>(hook: &Hook, begin: impl FnOnce() -> BoxFuture<'a, T>) -> Result<T, BoxError> {
    let future = now(begin)?;
    let limited = async {
        match hook.limit() {
            None => Ok(future.await),
            // Made in here, since it panics where the runtime has no timers.
            Some(limit) => tokio::time::timeout(limit, future).await.map_err(|_| HookFailure::TimedOut(limit)),
        }
    };
    Ok(AssertUnwindSafe(limited).catch_unwind().await.map_err(|panic| panicked(&*panic))??)
}

#[inline]
pub(super) fn flat(ran: Result<Flow, BoxError>) -> Flow {
    match ran {
        Ok(flow) => flow,
        Err(error) => Err(super::halt::Halt::failed(error)),
    }
}

/// Reports a failure: it is counted, and the operator's log has it.
#[cold]
pub(super) fn report(hook: &Hook, error: &BoxError, consequence: &'static str) {
    hook.failed();
    tracing::error!(hook = %hook.name, event = %hook.event, error = %error, consequence, "a hook failed");
}

/// Reports an observer that cannot be run, since nothing runs futures here any more.
pub(super) fn report_no_runtime(hook: &Hook) {
    report(hook, &HookFailure::NoRuntime.into(), "it heard nothing");
}
