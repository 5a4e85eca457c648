use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap};

use super::{InputRequired, Outcome, RawObject, Remark, TaskHandle, ToolResult, remark};
use crate::error::Refusal;

/// The answer to a [`ToolCall`](super::ToolCall). Its serde form is MCP's result with `resultType`; without one, a result is complete.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ToolResponse {
    /// The call is over.
    Complete(ToolResult),
    /// An answer of the person is needed; the caller calls again.
    InputRequired(Box<InputRequired>),
    /// The call goes on elsewhere.
    Task(Box<TaskHandle>),
}

impl ToolResponse {
    /// The complete response of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Complete(ToolResult::text(text))
    }

    /// The tool ran and failed; `message` tells the model why.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self::Complete(ToolResult::error(message))
    }

    /// The response that stands for a refusal.
    #[must_use]
    pub fn refused(refusal: Refusal) -> Self {
        Self::Complete(ToolResult::refused(refusal))
    }

    /// How the call ended.
    #[must_use]
    #[inline]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Complete(result) => result.outcome(),
            Self::InputRequired(_) => Outcome::InputRequired,
            Self::Task(_) => Outcome::Task,
        }
    }

    /// Whether the call did what was asked.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.outcome() == Outcome::Completed
    }

    /// The result, where the call is over.
    #[must_use]
    pub fn result(&self) -> Option<&ToolResult> {
        match self {
            Self::Complete(result) => Some(result),
            _ => None,
        }
    }

    /// The result, to change.
    pub fn result_mut(&mut self) -> Option<&mut ToolResult> {
        match self {
            Self::Complete(result) => Some(result),
            _ => None,
        }
    }

    /// Why the tool did not run, or why its result is not given.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        self.result()?.refusal()
    }

    /// The text of the result, as [`ToolResult::as_text`].
    #[must_use]
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        self.result()?.as_text()
    }
}

impl ToolResponse {
    /// What layers added beside the response.
    #[must_use]
    pub fn remarks(&self) -> &[Remark] {
        match self {
            Self::Complete(result) => result.remarks(),
            Self::InputRequired(asked) => &asked.remarks,
            Self::Task(task) => &task.remarks,
        }
    }

    /// What layers added beside the response, to change: for whoever redacts.
    pub fn remarks_mut(&mut self) -> &mut [Remark] {
        match self {
            Self::Complete(result) => result.remarks_mut(),
            Self::InputRequired(asked) => &mut asked.remarks,
            Self::Task(task) => &mut task.remarks,
        }
    }

    /// Adds a remark, whatever the response is; `false` if there are [too many](Remark::MAX_COUNT).
    pub fn add_remark(&mut self, remark: Remark) -> bool {
        match self {
            Self::Complete(result) => result.add_remark(remark),
            Self::InputRequired(asked) => remark::push(&mut asked.remarks, remark),
            Self::Task(task) => remark::push(&mut task.remarks, remark),
        }
    }
}

impl ToolResponse {
    /// Notes which layer answered in the tool's place, unless the response says so already or is a refusal.
    pub(crate) fn serve_by(&mut self, layer: impl Into<Cow<'static, str>>) {
        if let Self::Complete(result) = self
            && result.refusal().is_none()
            && result.served_by().is_none()
        {
            result.set_served_by(layer);
        }
    }
}

impl From<ToolResult> for ToolResponse {
    fn from(result: ToolResult) -> Self {
        Self::Complete(result)
    }
}

impl From<Refusal> for ToolResponse {
    fn from(refusal: Refusal) -> Self {
        Self::refused(refusal)
    }
}

impl Serialize for ToolResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Complete(result) => {
                map.serialize_entry("resultType", "complete")?;
                result.serialize_into(&mut map)?;
            }
            Self::InputRequired(asked) => {
                map.serialize_entry("resultType", "input_required")?;
                if !asked.requests.is_empty() {
                    map.serialize_entry("inputRequests", &asked.requests)?;
                }
                if let Some(state) = &asked.state {
                    map.serialize_entry("requestState", state)?;
                }
                asked.extra.serialize_into(&mut map)?;
                if !asked.meta.is_empty() {
                    map.serialize_entry("_meta", &asked.meta)?;
                }
            }
            Self::Task(task) => {
                map.serialize_entry("resultType", "task")?;
                map.serialize_entry("taskId", &task.task_id)?;
                map.serialize_entry("status", &task.status)?;
                task.extra.serialize_into(&mut map)?;
                if !task.meta.is_empty() {
                    map.serialize_entry("_meta", &task.meta)?;
                }
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ToolResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = RawObject::deserialize(deserializer)?;
        let kind: Option<String> = fields.take("resultType")?;
        match kind.as_deref() {
            None | Some("complete") => ToolResult::from_fields(fields).map(Self::Complete),
            Some("input_required") => Ok(Self::InputRequired(Box::new(InputRequired {
                requests: fields.take("inputRequests")?.unwrap_or_default(),
                state: fields.take("requestState")?,
                meta: fields.take("_meta")?.unwrap_or_default(),
                extra: fields,
                remarks: Vec::new(),
            }))),
            Some("task") => Ok(Self::Task(Box::new(TaskHandle {
                task_id: fields.require("taskId")?,
                status: fields.require("status")?,
                meta: fields.take("_meta")?.unwrap_or_default(),
                extra: fields,
                remarks: Vec::new(),
            }))),
            Some(other) => Err(D::Error::custom(format_args!("the resultType {other:?} is not known"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_response_leaves_as_it_came() {
        for json in [
            r#"{"resultType":"complete","content":[]}"#,
            r#"{"resultType":"complete","content":[{"type":"text","text":"x"}],"structuredContent":{"n":9007199254740993},"isError":true,"new":[1.0],"_meta":{"k":1}}"#,
            r#"{"resultType":"complete","content":[],"structuredContent":null}"#,
            r#"{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list"}},"requestState":"s"}"#,
            r#"{"resultType":"task","taskId":"t","status":"working","ttlMs":1000,"_meta":{"k":1}}"#,
        ] {
            let response: ToolResponse = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&response).unwrap(), json);
        }
    }

    #[test]
    fn a_response_without_a_type_is_complete_and_one_of_an_unknown_type_is_an_error() {
        assert!(serde_json::from_str::<ToolResponse>(r#"{"content":[]}"#).unwrap().is_completed());
        assert!(serde_json::from_str::<ToolResponse>(r#"{"resultType":"later"}"#).is_err());
    }
}
