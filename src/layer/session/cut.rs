//! Takes parameters out of a schema, wherever it says that the arguments have them.

use serde_json::value::RawValue;

use crate::model::RawObject;

/// How deep schemas that are about the same arguments are followed, references included.
const DEEPEST: usize = 16;
/// How many of them in one schema.
const MOST: usize = 1024;
/// How long the text may get in which what is referred to stands in the place of the reference.
const LONGEST: usize = 1024 * 1024;

pub(super) fn raw<T: serde::Serialize + ?Sized>(value: &T) -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(value).ok()
}

/// A schema without these properties; `None` if it has none of them.
pub(super) fn without(schema: &RawValue, names: &[&str]) -> Option<Box<RawValue>> {
    let mut cut = Cut { root: schema, names, left: MOST, room: LONGEST, resolved: false };
    let without = cut.schema(schema, 0)?;
    if cut.resolved { Some(pruned(&without).unwrap_or(without)) } else { Some(without) }
}

struct Cut<'a> {
    root: &'a RawValue,
    names: &'a [&'a str],
    left: usize,
    room: usize,
    /// Whether something stands in the place of a reference.
    resolved: bool,
}

impl Cut<'_> {
    fn schema(&mut self, schema: &RawValue, depth: usize) -> Option<Box<RawValue>> {
        if depth > DEEPEST {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        let mut fields: RawObject = serde_json::from_str(schema.get()).ok()?;
        let mut changed = self.names(&mut fields);
        for key in ["allOf", "anyOf", "oneOf"] {
            let Some(mut branches) = fields.get::<Vec<Box<RawValue>>>(key).ok().flatten() else { continue };
            let mut cut = false;
            for branch in &mut branches {
                if let Some(without) = self.schema(branch, depth + 1) {
                    (*branch, cut) = (without, true);
                }
            }
            changed |= cut && fields.insert(key, &branches).is_ok();
        }
        for key in ["if", "then", "else"] {
            if let Some(without) = fields.get_raw(key).map(RawValue::to_owned).and_then(|branch| self.schema(&branch, depth + 1)) {
                changed = true;
                fields.insert_raw(key, without);
            }
        }
        for key in ["dependentSchemas", "dependencies"] {
            let Some(mut branches) = fields.get::<RawObject>(key).ok().flatten() else { continue };
            let all: Vec<_> = branches.iter().map(|(name, branch)| (name.to_owned(), branch.to_owned())).collect();
            let mut cut = false;
            for (name, branch) in all {
                if let Some(without) = self.schema(&branch, depth + 1) {
                    branches.insert_raw(&name, without);
                    cut = true;
                }
            }
            changed |= cut && fields.insert(key, &branches).is_ok();
        }
        if let Some(target) = self.target(&fields)
            && let Some(without) = self.schema(&target, depth + 1)
            && let Some(room) = self.room.checked_sub(without.get().len())
        {
            (self.room, self.resolved) = (room, true);
            if fields.len() == 1 {
                return Some(without);
            }
            let mut all: Vec<Box<RawValue>> = fields.get("allOf").ok().flatten().unwrap_or_default();
            all.push(without);
            if fields.insert("allOf", &all).is_ok() {
                fields.remove("$ref");
                changed = true;
            }
        }
        if changed { raw(&fields) } else { None }
    }

    /// Takes the names out of what one schema says itself.
    fn names(&self, fields: &mut RawObject) -> bool {
        let mut changed = false;
        for key in ["properties", "dependentSchemas", "dependentRequired", "dependencies", "patternProperties"] {
            let Some(mut inner) = fields.get::<RawObject>(key).ok().flatten() else { continue };
            let mut cut = false;
            for name in self.names {
                cut |= match key {
                    "patternProperties" => inner.remove(&format!("^{name}$")).is_some(),
                    _ => inner.remove(name).is_some(),
                };
            }
            if matches!(key, "dependentRequired" | "dependencies") {
                let lists: Vec<(String, Vec<String>)> =
                    inner.iter().filter_map(|(key, list)| Some((key.to_owned(), serde_json::from_str(list.get()).ok()?))).collect();
                for (key, mut list) in lists {
                    cut |= self.list(&mut list) && inner.insert(&key, &list).is_ok();
                }
            }
            changed |= cut && fields.insert(key, &inner).is_ok();
        }
        if let Some(mut required) = fields.get::<Vec<String>>("required").ok().flatten() {
            changed |= self.list(&mut required) && fields.insert("required", &required).is_ok();
        }
        changed
    }

    fn list(&self, list: &mut Vec<String>) -> bool {
        let all = list.len();
        list.retain(|name| !self.names.contains(&name.as_str()));
        list.len() < all
    }

    /// What a schema refers to within the same text, by a pointer into it.
    fn target(&self, fields: &RawObject) -> Option<Box<RawValue>> {
        let reference: String = fields.get("$ref").ok()??;
        let pointer = reference.strip_prefix('#').filter(|pointer| pointer.starts_with('/'))?;
        let mut at = self.root.to_owned();
        for step in pointer.split('/').skip(1).take(DEEPEST) {
            let step = step.replace("%24", "$").replace("~1", "/").replace("~0", "~");
            at = match serde_json::from_str::<RawObject>(at.get()) {
                Ok(object) => object.get_raw(&step)?.to_owned(),
                Err(_) => serde_json::from_str::<Vec<Box<RawValue>>>(at.get()).ok()?.into_iter().nth(step.parse().ok()?)?,
            };
        }
        Some(at)
    }
}

/// The schema without the definitions that nothing refers to any more.
fn pruned(schema: &RawValue) -> Option<Box<RawValue>> {
    let mut fields: RawObject = serde_json::from_str(schema.get()).ok()?;
    for key in ["$defs", "definitions"] {
        let Some(mut definitions) = fields.get::<RawObject>(key).ok().flatten() else { continue };
        fields.remove(key);
        let rest = raw(&fields)?;
        let mut kept = RawObject::new();
        // From what is kept, whatever it refers to is kept too.
        let mut reached = vec![rest];
        while let Some(text) = reached.pop() {
            let names: Vec<String> = definitions.iter().map(|(name, _)| name.to_owned()).collect();
            for name in names.into_iter().filter(|name| refers(text.get(), name)) {
                if let Some(definition) = definitions.remove(&name) {
                    reached.push(definition.clone());
                    kept.insert_raw(&name, definition);
                }
            }
        }
        if !kept.is_empty() {
            fields.insert(key, &kept).ok()?;
        }
    }
    raw(&fields)
}

/// Whether a schema may refer to the definition of this name: never wrong in saying no. A name can be written with escapes, and what is
/// no pointer may be anything.
fn refers(schema: &str, name: &str) -> bool {
    let mut references = schema.match_indices("\"#").map(|(at, found)| &schema[at + found.len()..]).peekable();
    references.peek().is_some()
        && (schema.contains(&format!("/{name}")) || schema.contains(['\\', '~', '%']) || references.any(|rest| !rest.starts_with('/')))
}
