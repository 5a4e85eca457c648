use std::{fmt, sync::Arc};

use serde_json::Value;
use smol_str::SmolStr;

use crate::{
    error::{MissingParameter, Refusal, RefusalKind},
    model::{ToolCall, owned::same_argument},
};

/// Where a call names a session.
#[derive(Clone)]
pub(super) struct Handle {
    /// The name of the argument, or of what the closure finds.
    pub(super) name: SmolStr,
    pub(super) required: bool,
    from: From,
}

#[derive(Clone)]
enum From {
    Argument,
    Closure(Arc<dyn Fn(&ToolCall) -> Option<String> + Send + Sync>),
}

impl Handle {
    pub(super) fn argument(name: &str, required: bool) -> Self {
        Self { name: SmolStr::new(name), required, from: From::Argument }
    }

    pub(super) fn closure(name: &str, required: bool, find: impl Fn(&ToolCall) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { name: SmolStr::new(name), required, from: From::Closure(Arc::new(find)) }
    }

    /// Whether both calls name the same by it.
    pub(super) fn is_same(&self, was: &ToolCall, is: &ToolCall) -> bool {
        match &self.from {
            From::Argument => same_argument(&was.arguments, &is.arguments, &self.name),
            From::Closure(find) => find(was) == find(is),
        }
    }

    /// The id that the call names; `None` if it names none and need not. An empty text names none.
    pub(super) fn id(&self, call: &ToolCall) -> Result<Option<String>, Refusal> {
        let id = match &self.from {
            From::Closure(find) => find(call),
            From::Argument => {
                let object = call.arguments.object().map_err(|error| invalid(error.to_string()).with_source(error))?;
                match object.get(self.name.as_str()) {
                    None | Some(Value::Null) => None,
                    Some(Value::String(id)) => Some(id.clone()),
                    Some(_) => return Err(invalid(format!("The parameter '{}' must be a string.", self.name))),
                }
            }
        };
        match id.filter(|id| !id.is_empty()) {
            None if self.required => Err(MissingParameter::new(self.name.as_str()).into_refusal().with_by(super::NAME)),
            id => Ok(id),
        }
    }
}

fn invalid(message: String) -> Refusal {
    Refusal::new(RefusalKind::InvalidArguments, message).with_by(super::NAME)
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("name", &self.name).field("required", &self.required).finish_non_exhaustive()
    }
}

/// An id as a message shows it: it came from outside.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 128;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(LONGEST) {
            fmt::Write::write_char(f, if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })?;
        }
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}
