//! For tests of stacks and of layers (feature `testing`).
//!
//! - [`Probe`] is a tool that counts its runs and keeps what it was given.
//! - [`Controlled`] is a tool whose calls end when the test says so.
//! - [`Recorder`] is a layer that writes down what passes, for tests of order.
//! - [`Strict`] is the innermost service of a test: it fails on purpose and notices every breach of tower's contract.
//! - [`Contract`] runs every law of a good layer against yours.
//!
//! # Example
//!
//! ```
//! use toolstack::{layer::map_call, testing::Contract};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! Contract::new(|| map_call("mine", |_| {})).check().await;
//! # }
//! ```

mod bench;
mod contract;
mod controlled;
mod erased;
mod laws;
mod probe;
mod recorder;
mod strict;

pub use self::{
    contract::{Broken, Contract},
    controlled::{Controlled, Held},
    probe::Probe,
    recorder::{Place, Recorder},
    strict::{Behaviour, Strict, StrictError, StrictFuture, Tally},
};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A test that panicked with the lock in its hands has said what was wrong already.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
