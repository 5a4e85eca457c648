use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};

use super::{Arguments, CallId, Context, RawObject, Resume, ToolName, permit::Permit, trail::Trail};

/// One call of a tool: the request of the tool stack.
///
/// Its serde form is that of MCP's `tools/call` parameters (`name`, `arguments`, `inputResponses`, `requestState`, `_meta`) with an `id`
/// beside them. Of the context, only what a client sends travels.
///
/// ```
/// use serde_json::json;
/// use toolstack::ToolCall;
///
/// let call = ToolCall::new("add", json!({ "a": 1, "b": 2 }));
/// assert_eq!(call.name(), "add");
///
/// let call: ToolCall = serde_json::from_str(r#"{"id":"c1","name":"add","arguments":{"a":1,"b":2}}"#)?;
/// assert_eq!(call.id, "c1".into());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolCall {
    /// Names this call among those in flight.
    pub id: CallId,
    name: ToolName,
    /// What the tool is given.
    pub arguments: Arguments,
    /// Everything else.
    pub context: Context,
    /// Which registration of the tool a layer judged; zero for none yet. The router runs no other.
    judged: u64,
    /// The proof that a permission layer allowed exactly this call.
    permit: Option<Arc<Permit>>,
}

impl ToolCall {
    /// A call with an id of its own and an empty context.
    ///
    /// Any name will do: one that no tool can have is unknown to the router, and answered as such.
    #[must_use]
    pub fn new(name: impl AsRef<str>, arguments: impl Into<Arguments>) -> Self {
        Self {
            id: CallId::next(),
            name: ToolName::asked(name.as_ref()),
            arguments: arguments.into(),
            context: Context::new(),
            judged: 0,
            permit: None,
        }
    }

    /// This call, under that id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<CallId>) -> Self {
        self.id = id.into();
        self
    }

    /// This call, in that context.
    #[must_use]
    pub fn with_context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// The tool that is asked for.
    #[must_use]
    pub fn name(&self) -> &ToolName {
        &self.name
    }

    /// Asks for another tool.
    ///
    /// A layer does this outside every layer that judges the name. Once a layer has judged one tool, the router refuses to run another.
    pub fn rename(&mut self, name: impl AsRef<str>) {
        self.name = ToolName::asked(name.as_ref());
    }

    /// Takes the call out of its place, where an empty one stays behind.
    pub(crate) fn take(&mut self) -> Self {
        let name = ToolName::asked("");
        let empty = Self { id: CallId::from(0), name, arguments: Arguments::empty(), context: Context::new(), judged: 0, permit: None };
        std::mem::replace(self, empty)
    }

    pub(crate) fn set_name(&mut self, name: ToolName) {
        self.name = name;
    }

    pub(crate) const fn judged(&self) -> u64 {
        self.judged
    }

    /// Notes which registration a layer judged. The first judgement stands.
    pub(crate) const fn set_judged(&mut self, serial: u64) {
        if self.judged == 0 {
            self.judged = serial;
        }
    }

    /// Proves that a layer allowed this call, of this registration. A permit that the call has already and that holds no more stays:
    /// what was changed after one layer had allowed it is not allowed by another.
    pub(crate) fn allow(&mut self, serial: u64) {
        if self.permit.as_ref().is_none_or(|permit| permit.holds(self)) {
            self.permit = Some(Arc::new(Permit::new(self, serial)));
        }
    }

    pub(crate) fn permit(&self) -> Option<&Permit> {
        self.permit.as_deref()
    }

    /// Whether a layer judged it or observes it, so that a call in its place has to be [held](Self::hold_to) to something.
    pub(crate) const fn is_held(&self) -> bool {
        self.judged != 0 || self.permit.is_some() || self.context.trail().is_some()
    }

    /// What layers have judged so far.
    pub(crate) fn judgement(&self) -> Judgement {
        Judgement { judged: self.judged, permit: self.permit.clone(), trail: self.context.trail().cloned() }
    }

    /// Holds this call to what another was judged as, for whoever puts a new call into the place of a judged one: what was judged has to
    /// be what runs.
    pub(crate) fn hold_to(&mut self, judgement: Judgement) {
        self.set_judged(judgement.judged);
        if self.permit.is_none() {
            self.permit = judgement.permit;
        }
        if let (None, Some(trail)) = (self.context.trail(), judgement.trail) {
            self.context.follow(trail);
        }
    }

    /// Whether something has to be done when the tool begins.
    #[inline]
    pub(crate) const fn is_watched(&self) -> bool {
        self.permit.is_some() || self.context.trail().is_some()
    }

    /// Uses the permit up, and says that the tool begins, as the last one before the tool.
    pub(crate) fn begin_tool(&mut self) {
        self.permit = None;
        self.begin();
    }

    /// Says that what answers the call begins.
    pub(crate) fn begin(&mut self) {
        if let Some(trail) = self.context.take_trail() {
            trail.begin(self);
        }
    }

    /// Forgets the judgement, once the tool that was judged is what runs: it may pass the call on, to a router of its own for instance.
    pub(crate) const fn discharge(&mut self) {
        self.judged = 0;
    }
}

/// What layers have judged of a call: a registration, or more than that.
#[derive(Default)]
pub(crate) struct Judgement {
    judged: u64,
    permit: Option<Arc<Permit>>,
    /// Who observes it: what happens to the call in its place happens to this one.
    trail: Option<Arc<Trail>>,
}

impl fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("arguments", &self.arguments)
            .field("context", &self.context)
            .finish()
    }
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("arguments", &self.arguments)?;
        if let Some(resume) = self.context.resume() {
            if !resume.answers.is_empty() {
                map.serialize_entry("inputResponses", &resume.answers)?;
            }
            if let Some(state) = &resume.state {
                map.serialize_entry("requestState", state)?;
            }
        }
        self.context.params().serialize_into(&mut map)?;
        if !self.context.meta().is_empty() {
            map.serialize_entry("_meta", self.context.meta())?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = RawObject::deserialize(deserializer)?;
        let name: String = fields.require("name")?;
        let mut call = Self::new(name, fields.remove("arguments").map(Arguments::from).unwrap_or_default());
        if let Some(id) = fields.take("id")? {
            call.id = id;
        }
        let state: Option<Box<str>> = fields.take("requestState")?;
        let answers: Option<RawObject> = fields.take("inputResponses")?;
        if state.is_some() || answers.is_some() {
            call.context = call.context.with_resume(Resume::new(state, answers.unwrap_or_default()));
        }
        if let Some(meta) = fields.take("_meta")? {
            *call.context.meta_mut() = meta;
        }
        if !fields.is_empty() {
            call.context.set_params(fields);
        }
        Ok(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_leaves_as_it_came() {
        for json in [
            r#"{"id":"c1","name":"add","arguments":{"a":9007199254740993,"b":1.0}}"#,
            r#"{"id":7,"name":"no such tool!","arguments":{}}"#,
            r#"{"id":"","name":"t","arguments":null,"inputResponses":{"q":{"action":"accept"}},"requestState":"s","new":[1e400],"_meta":{"progressToken":1}}"#,
        ] {
            let call: ToolCall = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&call).unwrap(), json);
        }
    }

    #[test]
    fn a_call_without_arguments_or_id_has_none_and_one_of_its_own() {
        let call: ToolCall = serde_json::from_str(r#"{"name":"t"}"#).unwrap();
        assert_eq!(call.arguments.as_json().unwrap(), "{}");
        assert!(!call.id.is_empty());
        assert!(serde_json::from_str::<ToolCall>(r#"{"id":"c1"}"#).is_err());
    }

    /// Up to here, compilers move it with sixteen instructions and no call.
    #[test]
    fn a_call_is_at_most_128_bytes() {
        assert!(size_of::<ToolCall>() <= 128, "{}", size_of::<ToolCall>());
    }

    #[test]
    fn an_absurd_name_is_cut() {
        let call = ToolCall::new("x".repeat(1_000_000), ());
        assert_eq!(call.name().len(), 512);
        assert!(!call.name().is_valid());
    }
}
