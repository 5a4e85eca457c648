//! The machine of layers that call what is within more than once.
//!
//! A [`Repeat`] looks at each answer. One that it has nothing to say about passes at once; for another it takes its time, may change the
//! request, and has it made again or lets the answer stand.
//!
//! # Readiness
//!
//! That of the service within. The first attempt is made by the instance that was polled, each later one by a fresh clone, which is
//! driven to ready within the call.
//!
//! # What is held meanwhile
//!
//! Nothing: an attempt is dropped, with whatever permits of limits it has, before the policy takes its time.
//!
//! # Permits
//!
//! Each attempt is the request as it came to this layer, with what the policy changed, and with what layers further out judged of it: the
//! same call, under the same id. The router refuses an attempt whose arguments are not those that were allowed.
//!
//! # Dropping
//!
//! Ends the attempt that runs, or the wait between two. No further one is made.
//!
//! # Cost
//!
//! A clone of the request and one of the service within, for each request that may be made again; a box for each that is.

mod future;
mod machine;
mod policy;

pub use self::{
    future::ResponseFuture,
    machine::{RepeatLayer, Repeated},
    policy::{Judgement, Repeat},
};
