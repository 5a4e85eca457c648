use std::sync::Arc;

use smallvec::SmallVec;

use super::{Arguments, Context, RawObject, ToolCall, canonical::canonical};

/// What of a call a layer has settled, for nobody further in to change: arguments that the caller may not choose, handles that were
/// resolved.
pub(crate) trait Owns: Send + Sync {
    /// The name of what differs between the two.
    fn changed(&self, was: &ToolCall, is: &ToolCall) -> Option<String>;
}

/// What the layers that a call came through own of it.
pub(super) type Owners = SmallVec<[Arc<dyn Owns>; 1]>;

impl Context {
    /// Says that what this owns of the call is settled.
    pub(crate) fn own(&mut self, owner: Arc<dyn Owns>) {
        self.owners_mut().push(owner);
    }
}

impl ToolCall {
    /// The name of something in `is` that a layer further out owns and that is not as in this call.
    pub(crate) fn owned_change(&self, is: &Self) -> Option<String> {
        self.context.owners().iter().find_map(|owner| owner.changed(self, is))
    }
}

/// Whether the argument of this name is the same JSON in both, or in neither. What cannot be read is not the same.
pub(crate) fn same_argument(was: &Arguments, is: &Arguments, name: &str) -> bool {
    let of = |arguments: &Arguments| -> Option<Option<String>> {
        let fields: RawObject = serde_json::from_str(arguments.as_json().ok()?).ok()?;
        match fields.get_raw(name) {
            None => Some(None),
            Some(value) => Some(Some(canonical(value.get()).ok()?)),
        }
    };
    matches!((of(was), of(is)), (Some(was), Some(is)) if was == is)
}
