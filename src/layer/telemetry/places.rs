//! Where what is counted is kept: a place for each tool, and some that are there from the beginning.

use smol_str::SmolStr;

/// What the calls of tools that there are not are counted under.
pub const UNKNOWN_TOOL: &str = "(unknown)";

/// What the calls of the tools that there is no more room for are counted under, all together.
pub const OTHER_TOOLS: &str = "(other)";

/// Places that are there from the beginning.
pub(super) const UNKNOWN: u32 = 0;
pub(super) const OTHER: u32 = 1;
pub(super) const LISTS: u32 = 2;
pub(super) const FIRST_TOOL: u32 = 3;

/// The name that a place is shown under, where these are the tools that have one.
pub(super) fn name(place: u32, tools: &[SmolStr]) -> SmolStr {
    match place {
        UNKNOWN => SmolStr::new_static(UNKNOWN_TOOL),
        OTHER => SmolStr::new_static(OTHER_TOOLS),
        _ => place.checked_sub(FIRST_TOOL).and_then(|place| tools.get(place as usize)).cloned().unwrap_or_default(),
    }
}
