//! All integration tests, as one binary.

mod around;
mod bad_input;
mod cases_data;
mod cases_hooks;
mod cases_run;
mod contract;
mod describe;
mod examples;
mod features;
mod foreign_layers;
mod hooks;
mod layers;
mod lint;
mod order;
mod order_of_data;
mod peer_faults;
mod permission;
mod pitfalls;
mod redact;
mod reload;
mod router;
mod session;
mod stack;
mod tools;
mod validate;
