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
    let mut labelled = false;
    for note in notes {
        // A labelled layer is there already, under its label.
        filled.extend(between(outer, note.this()).into_iter().skip(usize::from(labelled)));
        outer = note.inner();
        labelled = note.is_foreign();
        // What the terminal service leaves has no name: it only ends the chain.
        if !note.name().is_empty() {
            filled.push(note);
        }
    }
    filled
}

/// The layers that `outer` names around the service `inner`.
pub(crate) fn between(outer: &str, inner: &str) -> Vec<Note> {
    let chain = outer.find(inner).filter(|_| !inner.is_empty()).map_or_else(
        // A box or a queue hides what is within; what is outside of it still shows.
        || heads(outer).into_iter().take_while(|head| known(head).is_some()).collect(),
        |at| enclosing(&outer[..at]),
    );
    chain.into_iter().filter_map(note).collect()
}

fn note(path: &str) -> Option<Note> {
    let own = path.starts_with(concat!(env!("CARGO_CRATE_NAME"), "::"));
    let either = matches!(last(path), "Either" | "Option");
    let boxed = last(path).starts_with("Box");
    if own || either || boxed {
        return None;
    }
    Some(match known(path) {
        Some((_, name, duties)) => duties.iter().fold(Note::foreign(*name), |note, duty| note.duty(*duty)),
        None => Note::foreign(snake_case(last(path))),
    })
}

fn known(path: &str) -> Option<&'static (&'static str, &'static str, &'static [Duty])> {
    path.starts_with("tower::").then(|| KNOWN.iter().find(|(name, ..)| *name == last(path)))?
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// The generic types that are still open at the end of `prefix`, outermost first.
fn enclosing(prefix: &str) -> Vec<&str> {
    let mut open = Vec::new();
    let mut start = 0;
    let mut previous = ' ';
    for (at, c) in prefix.char_indices() {
        match c {
            '<' => open.push(prefix[start..at].trim()),
            // The `>` of an arrow closes nothing.
            '>' if previous != '-' => drop(open.pop()),
            _ => {}
        }
        if matches!(c, '<' | '>' | ',' | '(' | ')' | '[' | ']' | ' ' | '&') {
            start = at + c.len_utf8();
        }
        previous = c;
    }
    open
}

/// The first type at each depth: `A<B<C>, D>` gives `A`, `B`, `C`.
fn heads(name: &str) -> Vec<&str> {
    let end = name.find(['>', ',']).unwrap_or(name.len());
    name[..end].split('<').map(str::trim).collect()
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
        let outer = "tower::retry::Retry<app::Policy<app::X>, tower::util::map_request::MapRequest<R, app::main::{{closure}}>>";
        assert_eq!(names(outer, "R, app"), ["retry", "map_request"]);
    }

    #[test]
    fn a_layer_nobody_knows_shows_by_its_own_name() {
        assert_eq!(names("other::CircuitBreaker<R, fn(u8) -> u8>", "R"), ["circuit_breaker"]);
    }

    #[test]
    fn what_hides_the_service_within_shows_as_far_as_it_goes() {
        assert_eq!(names("tower::load_shed::LoadShed<tower::buffer::service::Buffer<Call, F>>", "R9"), ["load_shed", "buffer"]);
    }
}
