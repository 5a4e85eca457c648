//! What an operator sees of the calls.

mod audit;
mod secrets;
mod telemetry;
