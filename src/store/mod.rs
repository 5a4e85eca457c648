//! State that outlives a call, behind small async traits, with a store in memory for each.

mod memory_sessions;
mod session;

pub use self::{
    memory_sessions::{CloseError, MemorySessions, OpenError, SessionLimits},
    session::{Hold, HoldError, Owner, SessionGuard, SessionStore},
};
