//! Whole chains.
