use std::{
    hash::{BuildHasher, Hasher},
    sync::Arc,
};

use foldhash::fast::RandomState;

use super::registry::Route;

/// The routes of one table, in the order of their names, and where each is.
///
/// A table is built once and never changed, so a hash and a place are enough: half the instructions of a map that can grow, and a
/// tenth of its memory. It is seeded, since names may come from others.
#[derive(Default)]
pub(super) struct Routes {
    ordered: Vec<Arc<Route>>,
    /// Places in `ordered`, by hash; a place that cannot be for none. A power of two, at least twice as many as there are routes.
    places: Box<[u32]>,
    state: RandomState,
}

const NONE: u32 = u32::MAX;

impl Routes {
    /// Of two routes of one name, the older stays.
    pub(super) fn new(mut routes: Vec<Arc<Route>>) -> Self {
        routes.sort_by(|a, b| a.name.cmp(&b.name).then(a.age.cmp(&b.age)));
        routes.dedup_by(|second, first| second.name == first.name);
        routes.shrink_to_fit();
        let places = vec![NONE; (2 * routes.len()).next_power_of_two()].into_boxed_slice();
        let mut this = Self { ordered: routes, places, state: RandomState::default() };
        let mask = this.places.len() - 1;
        for (place, route) in (0..NONE).zip(&this.ordered) {
            let mut at = this.hash(&route.name);
            while this.places[at & mask] != NONE {
                at = at.wrapping_add(1);
            }
            this.places[at & mask] = place;
        }
        this
    }

    // Within the one function that each call goes through, it is half as long.
    #[inline(always)]
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Route>> {
        let mut at = self.hash(name);
        loop {
            let place = *self.places.get(at & self.places.len().wrapping_sub(1))?;
            let route = self.ordered.get(place as usize)?;
            if route.name == *name {
                return Some(route);
            }
            at = at.wrapping_add(1);
        }
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.ordered.iter()
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
    fn hash(&self, name: &str) -> usize {
        let mut hasher = self.state.build_hasher();
        hasher.write(name.as_bytes());
        hasher.finish() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{ToolName, ToolSpec},
        router::registry::{Age, Target},
        tool::{Source, ToolEntry, sync_tool_fn},
    };

    fn route(name: &str) -> Arc<Route> {
        let name = ToolName::new(name).unwrap();
        let entry = Arc::new(ToolEntry::new(Arc::new(ToolSpec::new(name.clone())), Source::LOCAL));
        let (_, _, handler) = sync_tool_fn("t", || "").into_parts();
        Arc::new(Route { name, entry, target: Target::Handler(Arc::new(handler)), age: Age::now() })
    }

    #[test]
    fn every_route_is_found_and_no_other() {
        assert!(Routes::default().get("a").is_none());
        for count in [0, 1, 2, 3, 7, 8, 9, 1000] {
            let routes = Routes::new((0..count).rev().map(|i| route(&format!("tool_{i:04}"))).collect());
            assert!((0..count).all(|i| routes.contains(&format!("tool_{i:04}"))));
            assert!(!routes.contains("tool_") && !routes.contains("") && !routes.contains(&format!("tool_{count:04}")));
            assert!(routes.iter().is_sorted_by(|a, b| a.name < b.name));
        }
    }

    #[test]
    fn of_two_routes_of_one_name_the_older_stays() {
        let (older, younger) = (route("a"), route("a"));
        for both in [[&older, &younger], [&younger, &older]] {
            let routes = Routes::new(both.into_iter().cloned().chain([route("b")]).collect());
            assert!(Arc::ptr_eq(routes.get("a").unwrap(), &older));
            assert_eq!(routes.iter().count(), 2);
        }
    }
}
