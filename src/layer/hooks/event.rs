use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use http::Extensions;

use super::{hook::Hook, when::selected};
use crate::{
    layer::around::Site,
    model::{Arguments, Context, ListTools, Outcome, Remark, ToolCall, ToolList, ToolResponse, ToolResult, ToolSpec, remark},
    operation::Operation,
    router::Catalog,
    tool::ToolEntry,
};

/// A request that a hook sees first.
pub(super) enum Asked<'a> {
    Call(&'a mut ToolCall),
    List(&'a mut ListTools),
}

impl Asked<'_> {
    pub(super) fn reborrow(&mut self) -> Asked<'_> {
        match self {
            Self::Call(call) => Asked::Call(call),
            Self::List(list) => Asked::List(list),
        }
    }

    pub(super) const fn context_mut(&mut self) -> &mut Context {
        match self {
            Self::Call(call) => &mut call.context,
            Self::List(list) => &mut list.context,
        }
    }
}

/// What a hook leaves beside what it decides.
pub(super) struct Remarks<'a> {
    pub(super) by: &'a Cow<'static, str>,
    pub(super) all: &'a mut Vec<Remark>,
}

macro_rules! remark {
    () => {
        /// Adds a remark for the model to the response of the call, however it ends. Those beyond [a bound](Remark::MAX_COUNT) are dropped; a
        /// list has none.
        pub fn remark(&mut self, text: impl Into<String>) {
            remark::push(self.remarks.all, Remark::new(self.remarks.by.clone(), text));
        }
    };
}

/// Any request, before anything else is done: what a `before_request` hook is shown.
pub struct Request<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) remarks: Remarks<'a>,
}

impl Request<'_> {
    /// The name of the operation, such as `tools/call`.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        match &self.asked {
            Asked::Call(_) => ToolCall::NAME,
            Asked::List(_) => ListTools::NAME,
        }
    }

    /// The call, where it is one. Whether there is such a tool, and whether the caller may see it, is not known yet: decide by what is
    /// asked for, and not by what there is.
    #[must_use]
    pub const fn call(&self) -> Option<&ToolCall> {
        match &self.asked {
            Asked::Call(call) => Some(call),
            Asked::List(_) => None,
        }
    }

    /// What every operation carries.
    #[must_use]
    pub const fn context(&self) -> &Context {
        match &self.asked {
            Asked::Call(call) => &call.context,
            Asked::List(list) => &list.context,
        }
    }

    /// Values for this one request, for later hooks, layers further in and the tool.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        self.asked.context_mut().extensions_mut()
    }

    remark!();
}

/// Tools that a caller is about to be shown, or the one that it is about to call: what an `after_list` hook is shown.
///
/// The hook cannot tell which of the two it is, and sees one tool at a time. So what is not listed cannot be called, and the other way
/// round.
pub struct Listed<'a> {
    pub(super) items: Items<'a>,
    pub(super) context: &'a Context,
    pub(super) hook: &'a Hook,
}

pub(super) enum Items<'a> {
    /// The tool that is about to be called, and whether it is still there.
    One(&'a Arc<ToolSpec>, bool),
    Many(&'a mut ToolList, Option<&'a Catalog>),
}

impl Listed<'_> {
    /// Who asks, and what else the operation carries.
    #[must_use]
    pub const fn context(&self) -> &Context {
        self.context
    }

    /// Takes away the tools for which `keep` says no, of those that the hook is about.
    pub fn retain(&mut self, mut keep: impl FnMut(&ToolSpec) -> bool) {
        match &mut self.items {
            Items::One(tool, kept) => *kept = *kept && keep(tool),
            Items::Many(list, catalog) => {
                let hook = self.hook;
                list.retain(|tool| {
                    let about =
                        hook.only.is_none() || selected(hook, catalog.and_then(|catalog| catalog.get(&tool.name)).as_deref(), &tool.name);
                    !about || keep(tool)
                });
            }
        }
    }
}

/// Where a request is, and the tool that its hooks looked up where the layer had not.
pub(super) struct Place<'a> {
    pub(super) site: Site<'a>,
    looked_up: OnceLock<Option<Arc<ToolEntry>>>,
}

impl<'a> Place<'a> {
    pub(super) const fn new(site: Site<'a>) -> Self {
        Self { site, looked_up: OnceLock::new() }
    }
}

/// A call that is about to run: what a `before` hook is shown.
pub struct BeforeCall<'a> {
    pub(super) call: &'a mut ToolCall,
    pub(super) place: &'a Place<'a>,
    pub(super) answer: Option<Box<ToolResponse>>,
    pub(super) remarks: Remarks<'a>,
}

impl BeforeCall<'_> {
    /// The call, with what earlier hooks wrote into it.
    #[must_use]
    pub const fn call(&self) -> &ToolCall {
        self.call
    }

    /// The tool; `None` where none of that name is registered. If another one has its name by the time that the call gets there, the call
    /// is refused.
    #[must_use]
    pub fn tool(&self) -> Option<&ToolEntry> {
        match (self.place.site.tool, self.place.site.catalog) {
            (None, Some(catalog)) => self.place.looked_up.get_or_init(|| catalog.get(self.call.name())).as_deref(),
            (tool, _) => tool,
        }
    }

    /// Holds the call to the tool that the hook looked at.
    #[inline]
    pub(super) fn judged(&mut self) {
        if let Some(Some(tool)) = self.place.looked_up.get() {
            self.call.set_judged(tool.serial());
        }
    }

    /// The arguments.
    #[must_use]
    pub const fn arguments(&self) -> &Arguments {
        &self.call.arguments
    }

    /// Puts other arguments in their place: what later hooks and the tool get.
    pub fn set_arguments(&mut self, arguments: impl Into<Arguments>) {
        self.call.arguments = arguments.into();
    }

    /// Values for this one request, for later hooks, layers further in and the tool.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        self.call.context.extensions_mut()
    }

    /// Answers in the tool's place. Later `before` hooks do not run; `after` hooks and observers do.
    pub fn answer(&mut self, response: impl Into<ToolResponse>) {
        self.answer = Some(Box::new(response.into()));
    }

    remark!();
}

/// The result of a call: what an `after` hook is shown.
///
/// A refusal from further in is a result too; one by a hook of this layer is not. A response that asks for input or goes on as a task
/// has no result yet.
pub struct AfterCall<'a> {
    pub(super) call: &'a ToolCall,
    pub(super) result: &'a mut ToolResult,
    pub(super) remarks: Remarks<'a>,
}

impl AfterCall<'_> {
    /// The call, as it went in.
    #[must_use]
    pub const fn call(&self) -> &ToolCall {
        self.call
    }

    /// The result, with what earlier hooks made of it.
    #[must_use]
    pub const fn result(&self) -> &ToolResult {
        self.result
    }

    /// The result, to change.
    pub const fn result_mut(&mut self) -> &mut ToolResult {
        self.result
    }

    remark!();
}

/// How a call ended: what an observer is shown. It is borrowed, or a copy: nothing that an observer does to it changes anything.
#[derive(Clone, Debug)]
pub struct Ended<'a> {
    pub(super) call: Cow<'a, ToolCall>,
    pub(super) outcome: Outcome,
    pub(super) response: Option<Cow<'a, ToolResponse>>,
    pub(super) halted_by: Option<Cow<'static, str>>,
}

impl Ended<'_> {
    /// The call, as it went in: with what `before` hooks wrote into it.
    #[must_use]
    pub fn call(&self) -> &ToolCall {
        &self.call
    }

    /// How it ended.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The response that the caller gets; `None` where there is none, since the caller dropped the call, something within panicked, or a
    /// layer of another crate failed.
    #[must_use]
    pub fn response(&self) -> Option<&ToolResponse> {
        self.response.as_deref()
    }

    /// The hook of this layer that stopped the call.
    #[must_use]
    pub fn halted_by(&self) -> Option<&str> {
        self.halted_by.as_deref()
    }

    pub(super) fn into_owned(self) -> Ended<'static> {
        Ended {
            call: Cow::Owned(self.call.into_owned()),
            outcome: self.outcome,
            response: self.response.map(|response| Cow::Owned(response.into_owned())),
            halted_by: self.halted_by,
        }
    }
}

macro_rules! debug {
    ($($event:ident: $($field:ident)?;)*) => {$(
        impl fmt::Debug for $event<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($event))$(.field(stringify!($field), &self.$field()))?.finish_non_exhaustive()
            }
        }
    )*};
}

debug! {
    Request: method;
    Listed: context;
    BeforeCall: call;
    AfterCall: call;
}
