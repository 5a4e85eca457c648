use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::tool::ToolEntry;

/// What a layer works out once for each registration of a tool. Bounded: with more tools than that, it is worked out anew.
pub(crate) struct PerTool<T> {
    known: RwLock<HashMap<u64, Arc<T>, foldhash::fast::FixedState>>,
    max: usize,
}

impl<T> PerTool<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self { known: RwLock::default(), max }
    }

    pub(crate) fn get(&self, tool: &ToolEntry, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&tool.serial()) {
            return Arc::clone(known);
        }
        let made = Arc::new(make());
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.max {
            // Tools come and go, and their serials with them: those that are still called come back soon.
            known.clear();
        }
        Arc::clone(known.entry(tool.serial()).or_insert(made))
    }
}
