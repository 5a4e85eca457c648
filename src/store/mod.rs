//! State that outlives a call, behind small asynchronous traits: in memory here, in a shared engine where one process is not enough.
//!
//! - [`GrantStore`] keeps what a person decided for more than one call; [`MemoryGrants`] in memory.
//! - [`SessionStore`] keeps sessions that calls name; [`MemorySessions`] in memory.
//! - [`PendingStore`] keeps what a person was asked and has not answered; [`MemoryPending`] in memory.
//!
//! Every store is bounded. Times are [`SystemTime`], so that what is kept can leave the process; see [`now`].

mod grants;
mod identity;
mod memory_sessions;
mod pending;
mod session;

use std::{
    io,
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use serde::Serialize;
use tokio::time::Instant;

use crate::error::BoxError;

pub use self::{
    grants::{Grant, GrantEffect, GrantScope, GrantStore, MemoryGrants},
    identity::{Owner, ToolIdentity},
    memory_sessions::{CloseError, MemorySessions, OpenError, SessionLimits},
    pending::{MemoryPending, PendingApproval, PendingStore},
    session::{Hold, HoldError, SessionGuard, SessionOwner, SessionStore},
};

/// The time that expiry goes by: the later one of the system's clock and of what has passed by the runtime's clock.
///
/// So a clock that is put back gives nobody more time, a machine that slept is noticed, and paused time works in tests.
#[must_use]
pub fn now() -> SystemTime {
    static START: LazyLock<(SystemTime, Instant)> = LazyLock::new(|| (SystemTime::now(), Instant::now()));
    let passed = Instant::now().saturating_duration_since(START.1);
    START.0.checked_add(passed).map_or_else(SystemTime::now, |at| at.max(SystemTime::now()))
}

/// When a time that begins now is over; the last time there is, for one that is too long to be counted.
pub(crate) fn after(wait: Duration) -> SystemTime {
    const LONG: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    now() + wait.min(LONG)
}

/// How many bytes something takes as JSON; more than there are for what cannot be written.
pub(crate) fn size_of_json(value: &impl Serialize) -> usize {
    struct Count(usize);

    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

/// An id that cannot be guessed: 256 bits of the system's randomness, in hexadecimal.
///
/// # Errors
///
/// If the system has none to give.
pub(crate) fn unguessable() -> Result<String, BoxError> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(crate::model::canonical::hex(&bytes))
}
