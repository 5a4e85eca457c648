use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;

use super::registry::{Mount, Registry, Route, Target};
use crate::{
    describe::{Describe, Description, ToolNote},
    model::{ListTools, ToolList, ToolSpec},
    router::Catalog,
};

/// A list of a [`Router`](super::Router): there already, unless layers of nested routers have a say in it.
pub struct ListFuture(Repr);

enum Repr {
    Ready(Option<ToolList>),
    Boxed(BoxFuture<'static, ToolList>),
}

impl Future for ListFuture {
    type Output = Result<ToolList, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Repr::Boxed(list) => list.as_mut().poll(cx).map(Ok),
            Repr::Ready(list) => list.take().map_or(Poll::Pending, |list| Poll::Ready(Ok(list))),
        }
    }
}

impl fmt::Debug for ListFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListFuture").finish_non_exhaustive()
    }
}

impl Registry {
    pub(super) fn list(self: &Arc<Self>, list: ListTools) -> ListFuture {
        let flat = self.current();
        if !flat.layered {
            return ListFuture(Repr::Ready(Some(flat.list())));
        }
        let registry = Arc::clone(self);
        ListFuture(Repr::Boxed(Box::pin(async move { registry.list_for(list).await })))
    }

    /// Asks every router within, through its layers.
    async fn list_for(&self, list: ListTools) -> ToolList {
        let (own, mounts) = {
            let flat = self.current();
            (
                flat.routes.iter().filter(|route| matches!(route.target, Target::Handler(_))).map(spec).collect::<Vec<_>>(),
                flat.mounts.clone(),
            )
        };
        let mut tools = own;
        for mount in &mounts {
            let within = mount.service.list(ListTools::new().with_context(list.context.clone())).await;
            // A list that lacks tools, and does not say so, is worse than none.
            if let Some(refusal) = within.refusal() {
                return ToolList::refused(refusal.clone());
            }
            let flat = self.current();
            for tool in within.tools() {
                let Ok(outside) = mount.outside(&tool.name) else { continue };
                let route = flat.routes.get(&outside);
                match route {
                    // A tool of another place has the name: this one cannot be called.
                    Some(route) if !route.leads_to(mount) => {}
                    Some(route) if mount.has_as(tool) => tools.push(spec(route)),
                    _ => tools.push(Arc::new((**tool).clone().with_name(outside))),
                }
            }
        }
        ToolList::new(tools)
    }

    pub(super) async fn describe(self: Arc<Self>, describe: Describe) -> Description {
        let (own, mounts) = {
            let flat = self.current();
            let own: Vec<_> = flat
                .routes
                .iter()
                .filter_map(|route| match &route.target {
                    Target::Handler(handler) => Some((Arc::clone(&route.entry), handler.layers())),
                    Target::Mount(..) => None,
                })
                .collect();
            (own, flat.mounts.clone())
        };
        let mut tools = Vec::with_capacity(own.len());
        for (entry, layers) in own {
            tools.push(ToolNote::new(entry.spec().name.clone(), entry.source().name.clone(), layers.await));
        }
        let mut refusal = None;
        for mount in &mounts {
            let within = mount.service.describe(Describe::new()).await.with_foreign(mount.service.type_name());
            refusal = refusal.or_else(|| within.refusal().cloned());
            let around = within.layers().to_vec();
            for mut tool in within.into_tools() {
                let Ok(outside) = mount.outside(&tool.name) else { continue };
                tool.name = outside;
                tool.layers.splice(..0, around.iter().cloned());
                tools.push(tool);
            }
        }
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        Description::new(describe.into_notes(), tools, Some(Catalog::new(self))).with_refusal(refusal)
    }
}

fn spec(route: &Arc<Route>) -> Arc<ToolSpec> {
    Arc::clone(route.entry.spec())
}

impl Route {
    fn leads_to(&self, mount: &Arc<Mount>) -> bool {
        matches!(&self.target, Target::Mount(to, _) if Arc::ptr_eq(to, mount))
    }
}

impl Mount {
    /// Whether the router within has registered exactly this spec, so that the name outside is worked out already.
    fn has_as(&self, tool: &Arc<ToolSpec>) -> bool {
        self.registry.current().routes.get(&tool.name).is_some_and(|route| Arc::ptr_eq(route.entry.spec(), tool))
    }
}
