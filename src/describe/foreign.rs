//! Finds the layers of other crates between two notes, in the names of the types: `Timeout<ConcurrencyLimit<Visibility<..>>>` shows
//! two layers outside `Visibility`. The names are the compiler's and not promised, so this is for reading, and for `lint`, alone.

use super::{Duty, Note};

/// What tower's own services are called by `ServiceBuilder`, and what they do.
const KNOWN: &[(&str, &str, &[Duty])] = &[
    ("AndThen", "and_then", &[Duty::ChangesResults]),
    ("AsyncFilter", "filter_async", &[Duty::Decides]),
    ("Buffer", "buffer", &[Duty::Queues]),
    ("ConcurrencyLimit", "concurrency_limit", &[Duty::Limits]),
    ("Filter", "filter", &[Duty::Decides]),
    ("LoadShed", "load_shed", &[Duty::Sheds]),
    ("MapErr", "map_err", &[]),
    ("MapFuture", "map_future", &[]),
    ("MapRequest", "map_request", &[Duty::Rewrites]),
    ("MapResponse", "map_response", &[Duty::ChangesResults]),
    ("MapResult", "map_result", &[Duty::ChangesResults]),
    ("RateLimit", "rate_limit", &[Duty::Limits]),
    ("Retry", "retry", &[Duty::Repeats]),
    ("SpawnReady", "spawn_ready", &[]),
    ("Then", "then", &[Duty::ChangesResults]),
    ("Timeout", "timeout", &[Duty::Times]),
];

/// Puts notes of other crates' layers between the notes that layers left themselves.
pub(super) fn fill(outermost: &str, notes: Vec<Note>) -> Vec<Note> {
    let mut filled = Vec::with_capacity(notes.len());
    let mut outer = outermost;
    let mut labelled = 0;
    for note in notes {
        // Labelled layers are there already, under their label.
        filled.extend(between(outer, note.this()).into_iter().skip(labelled));
        outer = note.inner();
        labelled = note.labels();
        // What the terminal service leaves has no name: it only ends the chain.
        if !note.name().is_empty() {
            filled.push(note);
        }
    }
    filled
}

/// The layers that `outer` names around the service `inner`.
pub(crate) fn between(outer: &str, inner: &str) -> Vec<Note> {
    let outer = Type(outer);
    let chain = outer.around(inner).unwrap_or_else(|| outer.heads());
    chain.into_iter().filter_map(note).collect()
}

/// A layer, and whether the types leave open if it is there.
type Layer<'a> = (&'a str, bool);

fn note((path, optional): Layer<'_>) -> Option<Note> {
    let own = path.starts_with(concat!(env!("CARGO_CRATE_NAME"), "::"));
    if own || matches!(last(path), "Box" | "Either" | "Option") {
        return None;
    }
    let note = match known(path) {
        Some((_, name, duties)) => {
            let note = duties.iter().fold(Note::foreign(*name), |note, duty| note.duty(*duty));
            // A queue has a readiness of its own; so has what drives readiness in a task.
            if matches!(*name, "buffer" | "spawn_ready") { note } else { note.ready_at_once(false) }
        }
        // What is in such a box does not show.
        None if last(path).starts_with("Box") => Note::foreign("boxed"),
        None => Note::foreign(snake_case(last(path))),
    };
    Some(if optional { note.setting("optional", true) } else { note })
}

fn known(path: &str) -> Option<&'static (&'static str, &'static str, &'static [Duty])> {
    path.starts_with("tower::").then(|| KNOWN.iter().find(|(name, ..)| *name == last(path)))?
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// The name of a type.
#[derive(Clone, Copy)]
struct Type<'a>(&'a str);

impl<'a> Type<'a> {
    /// The path before the parameters.
    fn path(self) -> &'a str {
        self.0.find('<').filter(|_| self.0.ends_with('>')).map_or(self.0, |at| &self.0[..at])
    }

    /// The parameters, where there are any.
    fn parameters(self) -> Vec<Self> {
        let Some(list) = self.0[self.path().len()..].strip_prefix('<').and_then(|list| list.strip_suffix('>')) else {
            return Vec::new();
        };
        let (mut parameters, mut start, mut depth, mut previous) = (Vec::new(), 0, 0_i32, ' ');
        for (at, c) in list.char_indices() {
            match c {
                '<' | '(' | '[' | '{' => depth += 1,
                // The `>` of an arrow closes nothing.
                '>' if previous == '-' => {}
                '>' | ')' | ']' | '}' => depth -= 1,
                ',' if depth == 0 => {
                    parameters.push(Self(list[start..at].trim()));
                    start = at + 1;
                }
                _ => {}
            }
            previous = c;
        }
        parameters.push(Self(list[start..].trim()));
        parameters
    }

    /// The types around `inner`, outermost first; `None` if this one does not name it.
    fn around(self, inner: &str) -> Option<Vec<Layer<'a>>> {
        if self.0 == inner {
            return Some(Vec::new());
        }
        let mut within: Vec<_> = self.parameters().into_iter().filter_map(|parameter| parameter.around(inner)).collect();
        if last(self.path()) == "Either" && within.len() == 2 {
            let (right, left) = (within.pop()?, within.pop()?);
            return Some(either(left, right));
        }
        let mut chain = vec![(self.path(), false)];
        chain.extend(within.into_iter().next()?);
        Some(chain)
    }

    /// Of a type that hides what is within, as a box or a queue does: itself, and what tower's services name first.
    fn heads(self) -> Vec<Layer<'a>> {
        let mut heads = vec![(self.path(), false)];
        let mut next = self.parameters().first().copied();
        while let Some(head) = next.filter(|head| known(head.path()).is_some() || last(head.path()).starts_with("Box")) {
            heads.push((head.path(), false));
            next = head.parameters().first().copied();
        }
        heads
    }
}

/// What stands around the same service on two ways to it: the types do not tell which way is taken, up to where they meet.
fn either<'a>(mut left: Vec<Layer<'a>>, mut right: Vec<Layer<'a>>) -> Vec<Layer<'a>> {
    let mut both: Vec<_> = std::iter::from_fn(|| {
        let same = left.last()? == right.last()?;
        same.then(|| (left.pop(), right.pop()).0)?
    })
    .collect();
    both.reverse();
    left.into_iter().chain(right).map(|(path, _)| (path, true)).chain(both).collect()
}

fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for (at, c) in name.char_indices() {
        if c.is_uppercase() && at > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(outer: &str, inner: &str) -> Vec<String> {
        between(outer, inner).iter().map(|note| note.name().to_owned()).collect()
    }

    #[test]
    fn layers_show_between_a_service_and_one_within() {
        let inner = "toolstack::layer::around::Around<toolstack::router::Router, app::P<'_>>";
        let outer = format!("tower::timeout::Timeout<tower::limit::concurrency::service::ConcurrencyLimit<{inner}>>");
        assert_eq!(names(&outer, inner), ["timeout", "concurrency_limit"]);
    }

    #[test]
    fn what_stands_beside_the_service_within_is_no_layer() {
        let outer = "tower::retry::Retry<app::Policy<app::X>, tower::util::map_request::MapRequest<app::R, app::main::{{closure}}>>";
        assert_eq!(names(outer, "app::R"), ["retry", "map_request"]);
    }

    #[test]
    fn a_name_that_begins_alike_is_not_the_service_within() {
        assert_eq!(names("app::RouterLog<app::Router>", "app::Router"), ["router_log"]);
        assert_eq!(names("app::A<app::Router<u8>, app::Router>", "app::Router"), ["a"]);
    }

    #[test]
    fn a_layer_nobody_knows_shows_by_its_own_name() {
        assert_eq!(names("other::CircuitBreaker<R, fn(u8) -> u8>", "R"), ["circuit_breaker"]);
        assert_eq!(names("other::A<fn(u8) -> other::T<u8>, (u8, [R; 2]), other::B<R>>", "R"), ["a", "b"]);
        assert_eq!(names("other::Hides", "R"), ["hides"]);
    }

    #[test]
    fn what_hides_the_service_within_shows_as_far_as_it_goes() {
        assert_eq!(names("tower::load_shed::LoadShed<tower::buffer::service::Buffer<Call, F>>", "R"), ["load_shed", "buffer"]);
        assert_eq!(names("tower::timeout::Timeout<tower::util::boxed::BoxCloneService<Call, A, E>>", "R"), ["timeout", "boxed"]);
    }

    #[test]
    fn what_may_be_there_or_not_says_so() {
        let shown = |outer: &str| between(outer, "R").iter().map(ToString::to_string).collect::<Vec<_>>();
        let either = "tower::util::either::Either";
        assert_eq!(shown(&format!("{either}<tower::A<tower::B<R>>, tower::B<R>>")), ["a (optional: true)", "b"]);
        assert_eq!(shown(&format!("{either}<tower::A<R>, tower::B<R>>")), ["a (optional: true)", "b (optional: true)"]);
        assert_eq!(
            shown(&format!("tower::Timeout<{either}<tower::A<{either}<tower::B<R>, R>>, {either}<tower::B<R>, R>>>")),
            ["timeout", "a (optional: true)", "b (optional: true)"],
        );
    }

    #[test]
    fn no_name_of_a_type_is_too_odd() {
        for odd in ["", "<", ">", "a<", "a<>", "a<b>::c", "<A as B>::C", "&'_ a<b>", "dyn A<B> + Send", "a<(b, >)", "é<ü>"] {
            let _ = (between(odd, "R"), between(odd, odd), between("a<b>", odd));
        }
    }
}
