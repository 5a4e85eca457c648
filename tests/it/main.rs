//! The crate's parts, each by itself and in a stack.

mod around;
mod contract;
mod describe;
mod examples;
mod features;
mod layers;
mod lint;
mod order;
mod recommended;
mod router;
mod settings;
mod stack;
mod tools;
