//! The requests of a tool stack, and what a layer sees of them.
//!
//! A stack answers several kinds of request with the same layers: [`ToolCall`], [`ListTools`] and [`Describe`]. Tower's own layers are
//! generic over the request and serve them all. A layer of this crate is written once for every [`Operation`]: it looks at the request
//! through a [`View`] and at the response through a [`Reply`], and lets through what does not concern it with a default arm.
//!
//! ```
//! use toolstack::operation::View;
//!
//! fn name_of(view: &View<'_>) -> Option<String> {
//!     match view {
//!         View::Call(call) => Some(call.name().to_string()),
//!         _ => None,
//!     }
//! }
//! ```

use crate::{
    describe::{Describe, Description},
    error::Refusal,
    model::{Context, ListTools, ToolCall, ToolList, ToolResponse},
};

#[allow(unnameable_types, reason = "sealed: nobody else implements the trait")]
mod sealed {
    pub trait Sealed {}
}

/// A request of a tool stack. Each has one type of response.
///
/// The trait is closed: a layer can rely on [`View`] showing what there is.
pub trait Operation: sealed::Sealed + Clone + Send + 'static {
    /// What the request is answered with.
    type Response: Send + 'static;

    /// The name of the operation, as MCP's method where it has one.
    const NAME: &'static str;

    /// The request, for a layer to look at and change.
    fn view(&mut self) -> View<'_>;

    /// What every operation carries.
    fn context(&self) -> &Context;

    /// What every operation carries, to change.
    fn context_mut(&mut self) -> &mut Context;

    /// A response, for a layer to look at and change.
    fn reply(response: &mut Self::Response) -> Reply<'_>;

    /// The response that stands for a refusal.
    fn refuse(refusal: Refusal) -> Self::Response;

    /// The response that a layer gives in the place of the service within; a refusal if it answers something that was not asked.
    fn answer(answer: Answer) -> Self::Response;
}

/// A request, borrowed.
#[derive(Debug)]
#[non_exhaustive]
pub enum View<'a> {
    /// A call of a tool.
    Call(&'a mut ToolCall),
    /// A description of the stack.
    Describe(&'a mut Describe),
    /// A list of the tools.
    List(&'a mut ListTools),
}

/// A response, borrowed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply<'a> {
    /// To a call of a tool.
    Call(&'a mut ToolResponse),
    /// To a description of the stack.
    Describe(&'a mut Description),
    /// To a list of the tools.
    List(&'a mut ToolList),
}

/// What a layer answers in the place of the service within.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// To a call of a tool.
    Call(ToolResponse),
    /// To a list of the tools.
    List(ToolList),
}

impl From<ToolResponse> for Answer {
    fn from(response: ToolResponse) -> Self {
        Self::Call(response)
    }
}

impl From<ToolList> for Answer {
    fn from(list: ToolList) -> Self {
        Self::List(list)
    }
}

fn mismatch(operation: &str) -> Refusal {
    Refusal::internal(format!("a layer answered `{operation}` with the response of another operation"))
}

macro_rules! operation {
    ($request:ty => $response:ty, $name:literal, $variant:ident, refuse: $refuse:expr, answer: $($answer:pat => $value:expr)?) => {
        impl sealed::Sealed for $request {}

        impl Operation for $request {
            type Response = $response;

            const NAME: &'static str = $name;

            #[inline]
            fn view(&mut self) -> View<'_> {
                View::$variant(self)
            }

            #[inline]
            fn context(&self) -> &Context {
                &self.context
            }

            #[inline]
            fn context_mut(&mut self) -> &mut Context {
                &mut self.context
            }

            #[inline]
            fn reply(response: &mut Self::Response) -> Reply<'_> {
                Reply::$variant(response)
            }

            fn refuse(refusal: Refusal) -> Self::Response {
                $refuse(refusal)
            }

            fn answer(answer: Answer) -> Self::Response {
                match answer {
                    $($answer => $value,)?
                    _ => Self::refuse(mismatch($name)),
                }
            }
        }
    };
}

operation!(ToolCall => ToolResponse, "tools/call", Call, refuse: ToolResponse::refused, answer: Answer::Call(response) => response);
operation!(ListTools => ToolList, "tools/list", List, refuse: ToolList::refused, answer: Answer::List(list) => list);
operation!(Describe => Description, "describe", Describe, refuse: Description::refused, answer:);
