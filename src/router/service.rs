use std::{
    convert::Infallible,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    Catalog, Handle, ListFuture, ResponseFuture, RouterError,
    catalog::registered,
    registry::{Age, Flat, Mount, Registry},
};
use crate::{
    describe::{Describe, Description},
    error::BoxError,
    model::{ListTools, ToolCall, ToolList, ToolName, ToolResponse},
    stack::{Closed, Erased, ToolStack},
    tool::{FromService, Handler, Tool, ToolFuture},
};

/// Finds a tool by its name and runs it; see the [module](super).
///
/// A clone is the same router: a tool added to one is there in the other.
#[must_use = "a router does nothing until it is called"]
#[derive(Default)]
pub struct Router {
    registry: Arc<Registry>,
    kept: Kept,
}

/// What an instance that is called again keeps of the registry, so that it need not count a reference to it at each call. A tool that
/// was removed may live on in it until the next call.
#[derive(Default)]
enum Kept {
    /// It was not called yet. Most clones are called once.
    #[default]
    Nothing,
    /// It was called once.
    Called,
    /// It is called again and again.
    Table(Arc<Flat>),
}

impl Clone for Router {
    fn clone(&self) -> Self {
        Self { registry: Arc::clone(&self.registry), kept: Kept::Nothing }
    }
}

impl Router {
    /// A router without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Panics
    ///
    /// If there is one of that name. [`try_tool`](Self::try_tool) returns an error instead.
    #[track_caller]
    pub fn tool<H: Handler>(self, tool: Tool<H>) -> Self {
        or_panic(self.try_tool(tool))
    }

    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// If there is one of that name.
    pub fn try_tool<H: Handler>(self, tool: Tool<H>) -> Result<Self, RouterError> {
        let (entry, handler) = registered(tool);
        self.registry.insert(entry, handler)?;
        Ok(self)
    }

    /// Adds the tools of another router under their own names.
    ///
    /// # Panics
    ///
    /// If both have a tool of one name, or are the same router. [`try_merge`](Self::try_merge) returns an error instead.
    #[track_caller]
    pub fn merge(self, other: Self) -> Self {
        or_panic(self.try_merge(other))
    }

    /// Adds the tools of another router under their own names.
    ///
    /// # Errors
    ///
    /// If both have a tool of one name, or are the same router.
    pub fn try_merge(self, other: Self) -> Result<Self, RouterError> {
        self.mount(None, other)
    }

    /// Adds the tools of another router under `prefix` and a dot: `status` in `git` is `git.status`.
    ///
    /// # Panics
    ///
    /// If a name is taken or breaks the rule for names, or both are the same router. [`try_nest`](Self::try_nest) returns an error
    /// instead.
    #[track_caller]
    pub fn nest(self, prefix: &str, other: Self) -> Self {
        or_panic(self.try_nest(prefix, other))
    }

    /// Adds the tools of another router under `prefix` and a dot.
    ///
    /// # Errors
    ///
    /// If a name is taken or breaks the rule for names, or both are the same router.
    pub fn try_nest(self, prefix: &str, other: Self) -> Result<Self, RouterError> {
        let prefix = ToolName::new(prefix).map_err(|error| RouterError::Name { prefix: prefix.to_owned(), error })?;
        self.mount(Some(prefix), other)
    }

    fn mount(self, prefix: Option<ToolName>, other: Self) -> Result<Self, RouterError> {
        let registry = Arc::clone(&other.registry);
        self.registry.mount(Mount { prefix, registry, service: Arc::new(other), layered: false, age: Age::now() })?;
        Ok(self)
    }

    /// Puts a layer around the tools that are there already, and around what is done with names that no tool has. The last one added
    /// is outermost.
    ///
    /// The layer runs once for all of them, and costs a box for each call: combine several with
    /// [`ServiceBuilder`](tower::ServiceBuilder) first.
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<Self, Service: ToolStack>,
    {
        let registry = Arc::clone(&self.registry);
        let service: Arc<dyn Erased> = Arc::new(Closed(layer.layer(self)));
        let outer = Self::new();
        // Nothing else is in there yet, so nothing can clash.
        let mounted = outer.registry.mount(Mount { prefix: None, registry, service, layered: true, age: Age::now() });
        debug_assert!(mounted.is_ok(), "a new router clashes with nothing");
        outer
    }

    /// Sets what answers a call of a name that no tool has. Such calls are not listed, and a
    /// [visibility layer](crate::layer::VisibilityLayer) takes them for hidden.
    pub fn fallback<S>(self, service: S) -> Self
    where
        S: Service<ToolCall, Error: Into<BoxError>> + Clone + Send + Sync + 'static,
        S::Response: Into<ToolResponse>,
        S::Future: Send + 'static,
    {
        self.registry.set_fallback(Arc::new(FromService::new(service)));
        self
    }

    #[cold]
    fn look(&mut self, call: &mut ToolCall) -> ResponseFuture {
        let table = self.registry.current();
        self.kept = match self.kept {
            Kept::Nothing => Kept::Called,
            Kept::Called | Kept::Table(_) => Kept::Table(Arc::clone(&table)),
        };
        table.dispatch(call)
    }

    /// What adds and removes tools while the router runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.registry))
    }

    /// The tools.
    #[must_use]
    pub fn catalog(&self) -> Catalog {
        Catalog::new(Arc::clone(&self.registry))
    }
}

#[track_caller]
fn or_panic(result: Result<Router, RouterError>) -> Router {
    // A closure would be where the panic happens.
    match result {
        Ok(router) => router,
        Err(error) => panic!("{error}"),
    }
}

impl Service<ToolCall> for Router {
    type Response = ToolResponse;
    type Error = Infallible;
    type Future = ResponseFuture;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut call: ToolCall) -> ResponseFuture {
        match &self.kept {
            Kept::Table(table) if self.registry.is_current(table) => table.dispatch(&mut call),
            _ => self.look(&mut call),
        }
    }
}

impl Service<ListTools> for Router {
    type Response = ToolList;
    type Error = Infallible;
    type Future = ListFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, list: ListTools) -> ListFuture {
        self.registry.list(list)
    }
}

impl Service<Describe> for Router {
    type Response = Description;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Description, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut describe: Describe) -> Self::Future {
        describe.terminal::<Self>();
        let registry = Arc::clone(&self.registry);
        Box::pin(async move { Ok(registry.describe(describe).await) })
    }
}

impl Erased for Router {
    fn call(&self, mut call: ToolCall) -> ToolFuture {
        self.registry.current().dispatch(&mut call).into_tool_future()
    }

    fn list(&self, list: ListTools) -> BoxFuture<'static, ToolList> {
        let list = self.registry.list(list);
        Box::pin(async move { list.await.unwrap_or_else(|never| match never {}) })
    }

    fn describe(&self, describe: Describe) -> BoxFuture<'static, Description> {
        Box::pin(Arc::clone(&self.registry).describe(describe))
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("tools", &self.catalog().list()).finish()
    }
}
