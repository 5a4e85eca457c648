//! Which tools something is about: by name, by what they are tagged with, by where they come from, by what they do.
//!
//! Hooks, rules and settings that are for some tools only select them in one way, from code or from a file.
//!
//! ```
//! use toolstack::select::ToolSelector;
//!
//! let selector = ToolSelector::new().name("git.*")?.tag("vcs");
//! let from_file: ToolSelector = serde_json::from_str(r#"{"names":["git.*"],"tags":["vcs"]}"#)?;
//! assert_eq!(selector, from_file);
//! assert!(serde_json::from_str::<ToolSelector>(r#"{"nmaes":["git.*"]}"#).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod pattern;
mod selector;

pub use self::{
    pattern::{Pattern, PatternError},
    selector::ToolSelector,
};
