use std::any::type_name;

use tower_service::Service;

use crate::{
    describe::{Describe, Description, Fault, lint},
    error::BoxError,
    model::{Arguments, ListTools, ToolCall, ToolList, ToolResponse},
    run::{Answered, Turn},
    stack::{Stack, ToolStack, close, described},
};

/// Ways to use a stack from the program that it runs in.
///
/// Each takes the stack by reference and works on a clone, so that one stack serves any number of callers. None of them fails: an error
/// or a panic of a layer is a refusal in the response.
pub trait StackExt: Sized {
    /// Calls a tool. Dropping the future cancels the call.
    fn call_tool<N, A>(&self, name: N, arguments: A) -> impl Future<Output = ToolResponse> + Send + use<Self, N, A>
    where
        N: AsRef<str>,
        A: Into<Arguments>,
        Self: Service<ToolCall, Response = ToolResponse, Error: Into<BoxError>, Future: Send> + Clone + Send,
    {
        self.run_call(ToolCall::new(name, arguments))
    }

    /// Makes a call, with an id and a context. Dropping the future cancels the call.
    fn run_call(&self, call: ToolCall) -> impl Future<Output = ToolResponse> + Send + use<Self>
    where
        Self: Service<ToolCall, Response = ToolResponse, Error: Into<BoxError>, Future: Send> + Clone + Send,
    {
        close(self.clone(), call)
    }

    /// Lists the tools that may be called, with an empty context.
    fn list_tools(&self) -> impl Future<Output = ToolList> + Send + use<Self>
    where
        Self: Service<ListTools, Response = ToolList, Error: Into<BoxError>, Future: Send> + Clone + Send,
    {
        self.run_list(ListTools::new())
    }

    /// Lists the tools that may be called in some context.
    fn run_list(&self, list: ListTools) -> impl Future<Output = ToolList> + Send + use<Self>
    where
        Self: Service<ListTools, Response = ToolList, Error: Into<BoxError>, Future: Send> + Clone + Send,
    {
        close(self.clone(), list)
    }

    /// Makes the calls of one turn of a model, several at a time: as many answers as calls, in the order of the calls.
    ///
    /// As [`Turn::new`]`.run(self, calls)`.
    fn run_calls(&self, calls: Vec<ToolCall>) -> impl Future<Output = Vec<Answered>> + Send + use<Self>
    where
        Self: Service<ToolCall, Response = ToolResponse, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync,
    {
        let stack = self.clone();
        async move { Turn::new().run(&stack, calls).await }
    }

    /// Tells what the stack is made of, outermost first. See [`describe`](crate::describe).
    fn describe(&self) -> impl Future<Output = Description> + Send + use<Self>
    where
        Self: Service<Describe, Response = Description, Error: Into<BoxError>, Future: Send> + Clone + Send,
    {
        let described = described(self.clone(), Describe::new());
        async move { described.await.with_foreign(type_name::<Self>()) }
    }

    /// Names what is wrong with the order of the layers; nothing, for a good one. A stack that cannot be described has the fault
    /// `no-description`. See [`Fault`].
    fn lint(&self) -> impl Future<Output = Vec<Fault>> + Send + use<Self>
    where
        Self: Service<Describe, Response = Description, Error: Into<BoxError>, Future: Send> + Clone + Send,
    {
        let description = self.describe();
        async move { lint::faults(&description.await) }
    }

    /// Closes the stack off. See [`Stack`].
    fn into_stack(self) -> Stack
    where
        Self: ToolStack,
    {
        Stack::new(self)
    }
}

impl<S> StackExt for S {}
