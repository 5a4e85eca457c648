//! Longer reading: how to write a layer, how to run a stack, and why the crate is as it is.

#[doc = include_str!("docs/writing_a_layer.md")]
pub mod writing_a_layer {}

#[doc = include_str!("docs/operating.md")]
pub mod operating {}

#[doc = include_str!("docs/design.md")]
pub mod design {}

#[doc = include_str!("docs/features.md")]
pub mod features {}
