use std::{borrow::Cow, fmt};

/// What a layer adds beside a response, for the model to read: a hint, a warning, what was looked up on the way.
///
/// Remarks stand on every kind of response, also on a refusal or a failure. They are no part of its serde form, so that a tool elsewhere
/// cannot make one in a layer's name: how a model gets to read them is the face's business.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remark {
    /// Who adds it.
    pub by: Cow<'static, str>,
    /// What it says.
    pub text: String,
}

impl Remark {
    /// The longest text, in bytes. A longer one is cut, and says so.
    pub const MAX_LENGTH: usize = 8 * 1024;

    /// The most remarks on one response. Further ones are not added.
    pub const MAX_COUNT: usize = 32;

    /// A remark.
    #[must_use]
    pub fn new(by: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        const CUT: &str = " [cut]";
        let mut text = text.into();
        if text.len() > Self::MAX_LENGTH {
            let end = (0..=Self::MAX_LENGTH - CUT.len()).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            text.truncate(end);
            text.push_str(CUT);
        }
        Self { by: by.into(), text }
    }
}

impl fmt::Debug for Remark {
    /// Who, and how long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remark({}, {} bytes)", self.by, self.text.len())
    }
}

/// Adds a remark, unless there are too many.
pub(crate) fn push(remarks: &mut Vec<Remark>, remark: Remark) -> bool {
    let room = remarks.len() < Remark::MAX_COUNT;
    if room {
        remarks.push(remark);
    }
    room
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::{Refusal, RefusalKind},
        model::{InputRequired, TaskHandle, ToolResponse},
    };

    #[test]
    fn every_kind_of_response_keeps_remarks_and_none_writes_them() {
        for mut response in [
            ToolResponse::text("x"),
            ToolResponse::error("x"),
            ToolResponse::refused(Refusal::new(RefusalKind::Denied, "x")),
            ToolResponse::InputRequired(Box::new(InputRequired::new("s"))),
            ToolResponse::Task(Box::new(TaskHandle::new("t"))),
        ] {
            let (outcome, json) = (response.outcome(), serde_json::to_string(&response).unwrap());
            assert!(response.remarks().is_empty());
            assert!(response.add_remark(Remark::new("hook", "look twice")));
            assert_eq!(response.remarks(), [Remark::new("hook", "look twice")]);
            assert_eq!((response.outcome(), serde_json::to_string(&response).unwrap()), (outcome, json));
            response.remarks_mut()[0].text.clear();
            assert_eq!(response.remarks()[0].text, "");
        }
    }

    #[test]
    fn remarks_are_bounded_in_length_and_in_number() {
        let long = Remark::new("hook", "ü".repeat(Remark::MAX_LENGTH));
        assert!(long.text.len() <= Remark::MAX_LENGTH && long.text.ends_with("ü [cut]"));
        let mut response = ToolResponse::text("x");
        let added = (0..100).filter(|n| response.add_remark(Remark::new("hook", n.to_string()))).count();
        assert_eq!((added, response.remarks().len()), (Remark::MAX_COUNT, Remark::MAX_COUNT));
    }

    #[test]
    fn debug_shows_no_text() {
        assert_eq!(format!("{:?}", Remark::new("hook", "hunter2")), "Remark(hook, 7 bytes)");
    }
}
