use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};

use super::{Approval, ApprovalRequest, ApproverError, Scope, refusals, show};
use crate::{
    error::Refusal,
    model::{InputRequired, ToolCall},
    store::{MemoryPending, Owner, PendingApproval, PendingStore, ToolIdentity, after, unguessable},
};

/// Asks by answering the call with a question: the caller puts it to the person, and calls again with the answer.
///
/// What was asked is kept in a [`PendingStore`] under an id that cannot be guessed, and only what stands there counts: the same tool, as
/// it is defined now, the same arguments and the same principal, in time, and once. The new call may have another id, as MCP wants it.
///
/// The question shows all of the arguments, as their canonical JSON, with codes for what could not be seen. It is an
/// `elicitation/create` request. Its answer is read strictly: `"false"` is no `false`, and an answer that cannot be
/// read is no answer.
#[derive(Clone)]
pub struct Reentry {
    store: Arc<dyn PendingStore>,
    name: String,
    valid: Duration,
    remember: Duration,
    apart: bool,
    shown: usize,
}

/// What came of a call that brings something back.
pub(super) enum Back {
    /// An answer.
    Answered(Approval),
    /// Nothing yet: the question stands.
    Open(InputRequired),
}

/// The key of the question.
const QUESTION: &str = "approval";

impl Reentry {
    /// How long a question can be answered, unless [`valid_for`](Self::valid_for) says otherwise.
    pub const VALID: Duration = Duration::from_secs(15 * 60);
    /// How long an answer is remembered that the person wants to be, unless [`remember_for`](Self::remember_for) says otherwise.
    pub const REMEMBERED: Duration = Duration::from_secs(3600);

    /// Keeps what was asked in memory.
    #[must_use]
    pub fn new() -> Self {
        Self::with_store(MemoryPending::new())
    }

    /// Keeps what was asked in this store.
    #[must_use]
    pub fn with_store(store: impl PendingStore) -> Self {
        let store = Arc::new(store);
        Self { store, name: "permission".to_owned(), valid: Self::VALID, remember: Self::REMEMBERED, apart: false, shown: show::SHOWN }
    }

    /// Sets a name, by which the layer knows its own questions. Two layers of one stack that both ask so need two names.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how long a question can be answered.
    #[must_use]
    pub const fn valid_for(mut self, time: Duration) -> Self {
        self.valid = time;
        self
    }

    /// Sets how long an answer is remembered that the person wants to be.
    #[must_use]
    pub const fn remember_for(mut self, time: Duration) -> Self {
        self.remember = time;
        self
    }

    /// Asks about calls whose arguments take at most so many characters; 10,000, if not set. Those of others are not shown in part: the
    /// call is refused.
    #[must_use]
    pub const fn show_at_most(mut self, characters: usize) -> Self {
        self.shown = characters;
        self
    }

    /// Takes no answer from the caller: only one that is given [apart](super::PermissionHandle::answer), for instance on a page that
    /// the person signs in to. A caller that comes back before finds the question still open.
    #[must_use]
    pub const fn answered_apart(mut self) -> Self {
        self.apart = true;
        self
    }

    pub(super) const fn store(&self) -> &Arc<dyn PendingStore> {
        &self.store
    }

    /// The id that the call brings back, if it is one of this layer's.
    pub(super) fn id_of<'a>(&self, call: &'a ToolCall) -> Option<&'a str> {
        call.context.resume()?.state.as_deref()?.strip_prefix(&*self.name)?.strip_prefix(':')
    }

    /// Keeps the question and asks it.
    pub(super) async fn suspend(&self, request: &ApprovalRequest) -> Result<InputRequired, Refusal> {
        let call = &request.call;
        let name = call.name();
        // Nobody is asked about what cannot be shown, nor compared with what comes back.
        let arguments = show::arguments(&call.arguments, self.shown).map_err(|error| refusals::undecided(name, error, Duration::ZERO))?;
        let id = unguessable().map_err(|error| refusals::broken(name, "asking for approval failed", error))?;
        let message = format!("Run `{name}` with {arguments}? Asked because {}.", show::text(&request.explanation.why(), 400));
        let (owner, tool) = (Owner::of(&call.context), ToolIdentity::of(&request.tool));
        let pending = PendingApproval::new(id, self.name.clone(), owner, tool, call.arguments.clone(), message, after(self.valid))
            .with_resume(call.context.resume());
        let question = self.question(&pending, request.may_remember);
        self.store.put(pending).await.map_err(|error| refusals::broken(name, "asking for approval failed", error))?;
        Ok(question)
    }

    fn question(&self, pending: &PendingApproval, may_remember: bool) -> InputRequired {
        let asked = InputRequired::new(format!("{}:{}", self.name, pending.id));
        if self.apart {
            return asked;
        }
        let mut properties = json!({
            "approve": { "type": "boolean", "title": "Run it" },
            "reason": { "type": "string", "title": "Why", "maxLength": 1000 },
        });
        if may_remember {
            properties["remember"] = json!({
                "type": "string", "title": "Remember the answer", "default": "no", "enum": ["no", "call", "tool"],
                "enumNames": ["no", "for the same arguments", "for this tool"],
            });
        }
        let request = json!({
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": pending.message,
                "requestedSchema": { "type": "object", "properties": properties, "required": ["approve"] },
            },
        });
        match serde_json::value::to_raw_value(&request) {
            Ok(request) => asked.request(QUESTION, request),
            Err(_) => asked,
        }
    }

    /// Takes the answer that a call brings back, if it is the call that was asked about.
    pub(super) async fn resume(&self, call: &mut ToolCall, tool: &ToolIdentity, may_remember: bool) -> Result<Back, Refusal> {
        let name = call.name().clone();
        let id = self.id_of(call).unwrap_or_default().to_owned();
        let broken = |error| refusals::broken(&name, "looking for the approval failed", error);
        let found = self.store.get(&id).await.map_err(broken)?;
        let owner = Owner::of(&call.context);
        let same = |pending: &PendingApproval| {
            pending.layer == self.name && pending.owner == owner && pending.tool == *tool && pending.arguments.is_same(&call.arguments)
        };
        let Some(pending) = found.filter(same) else { return Err(refusals::not_approved(&name)) };
        let answer = match (&pending.answer, call.context.resume().and_then(|resume| resume.answer(QUESTION))) {
            (Some(answer), _) => answer.clone(),
            (None, Some(answer)) if !self.apart => match self.read(answer, may_remember) {
                Ok(Some(answer)) => answer,
                Ok(None) => {
                    // Put aside: the question is over, and nobody said no.
                    self.store.take(&id).await.map_err(broken)?;
                    return Err(refusals::undecided(&name, ApproverError::Dismissed, Duration::ZERO));
                }
                Err(why) => return Err(refusals::unreadable_answer(&name, &why)),
            },
            _ => return Ok(Back::Open(self.question(&pending, may_remember))),
        };
        // Of several who come back at once, one gets it.
        let Some(taken) = self.store.take(&id).await.map_err(broken)? else { return Err(refusals::not_approved(&name)) };
        // One that was given apart in the meantime was taken note of, and counts.
        let answer = taken.answer.clone().unwrap_or(answer);
        call.context.set_resume(taken.into_resume());
        Ok(Back::Answered(answer))
    }

    fn read(&self, answer: &RawValue, may_remember: bool) -> Result<Option<Approval>, String> {
        const FORM: &str =
            "it has to be {\"action\":\"accept\",\"content\":{\"approve\":true}}, with `approve` a boolean, or to decline or cancel";
        // Serde would also read what stands in a list, by position.
        let objects = serde_json::from_str::<Value>(answer.get())
            .is_ok_and(|whole| whole.is_object() && whole.get("content").is_none_or(|content| content.is_object() || content.is_null()));
        if !objects {
            return Err(FORM.to_owned());
        }
        let elicited: Elicited = serde_json::from_str(answer.get()).map_err(|_| FORM.to_owned())?;
        let (approve, remember, reason) = match (elicited.action, elicited.content) {
            (Action::Accept, Some(content)) => (content.approve, content.remember, content.reason),
            (Action::Accept, None) => return Err("it accepts without `content`".to_owned()),
            (Action::Decline, _) => (false, None, None),
            (Action::Cancel, _) => return Ok(None),
        };
        let scope = match remember {
            Some(RememberWord::Call) if may_remember => Some(Scope::Call),
            Some(RememberWord::Tool) if may_remember => Some(Scope::Tool),
            _ => None,
        };
        let mut approval = match (approve, scope) {
            (true, Some(scope)) => Approval::allow_for(scope, self.remember),
            (true, None) => Approval::once(),
            (false, Some(scope)) => Approval::deny_for(scope, self.remember),
            (false, None) => Approval::deny(),
        };
        approval.reason = reason.map(|reason| reason.chars().take(1000).collect());
        Ok(Some(approval))
    }
}

/// The result of an elicitation. Nothing in it is guessed at.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Elicited {
    action: Action,
    content: Option<Content>,
    #[serde(rename = "_meta")]
    _meta: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Accept,
    Cancel,
    Decline,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    approve: bool,
    remember: Option<RememberWord>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RememberWord {
    Call,
    No,
    Tool,
}

impl Default for Reentry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Reentry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reentry")
            .field("name", &self.name)
            .field("valid", &self.valid)
            .field("remember", &self.remember)
            .field("apart", &self.apart)
            .finish_non_exhaustive()
    }
}
