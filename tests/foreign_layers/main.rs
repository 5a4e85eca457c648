//! Layers of other crates stand in a stack as they are, at any place and in any order that they themselves allow.

mod bench;
mod chains;
mod resilience;
mod tower_layers;
