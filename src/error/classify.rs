use std::{any::Any, error::Error, sync::Arc};

use tower::{buffer, load_shed, timeout};

use super::{BoxError, Refusal, RefusalKind};

/// Recognises errors that this crate does not know: `None` leaves an error to the rules of [`refusal_of`].
pub type Classify = Arc<dyn Fn(&(dyn Error + 'static)) -> Option<Refusal> + Send + Sync>;

/// The refusal that an error of any layer amounts to.
///
/// Walks along [`source`](Error::source) from the outside in, and stops at the first error that it knows: a [`Refusal`] that somebody
/// boxed, what `classify` recognises, and what tower's and tokio's own layers give. Anything else is
/// [`Internal`](RefusalKind::Internal), with the error as the source and none of its text in the message.
#[must_use]
pub fn refusal_of(error: BoxError, classify: Option<&Classify>) -> Refusal {
    let known = chain(&*error).find_map(|error| known(error).or_else(|| classify?(error)));
    match known {
        Some(refusal) if error.is::<Refusal>() || Error::source(&refusal).is_some() => refusal,
        Some(refusal) => refusal.with_source(error),
        None => Refusal::internal(error).with_by("catch_error"),
    }
}

/// How many errors a chain may have before it is taken for a circle.
const LONGEST_CHAIN: usize = 64;

pub(crate) fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source()).take(LONGEST_CHAIN)
}

fn known(error: &(dyn Error + 'static)) -> Option<Refusal> {
    if let Some(refusal) = error.downcast_ref::<Refusal>() {
        return Some(refusal.clone());
    }
    if error.is::<timeout::error::Elapsed>() || error.is::<tokio::time::error::Elapsed>() {
        return Some(
            Refusal::new(RefusalKind::Timeout, "The call took too long and was stopped; what it began may be half done.")
                .with_by("timeout"),
        );
    }
    if error.is::<load_shed::error::Overloaded>() {
        return Some(Refusal::new(RefusalKind::Overloaded, "Too many calls are running; call again in a moment.").with_by("load_shed"));
    }
    if error.is::<buffer::error::Closed>() {
        return Some(
            Refusal::new(RefusalKind::Internal, "The part that runs this tool has stopped; the operator has to restart it.")
                .with_by("buffer"),
        );
    }
    crate::credential::refusal_in(error)
}

/// The refusal that an error of unknown type amounts to, seen without taking it: for observers, which must not change it.
pub(crate) fn refusal_of_any(error: &dyn Any) -> RefusalKind {
    if let Some(error) = error.downcast_ref::<BoxError>() {
        chain(&**error).find_map(known).map_or(RefusalKind::Internal, |refusal| refusal.kind())
    } else {
        error.downcast_ref::<Refusal>().map_or(RefusalKind::Internal, Refusal::kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("wrapped: password=hunter2")]
    struct Wrapped(#[source] BoxError);

    #[test]
    fn a_known_error_is_found_under_any_wrapping() {
        for (error, kind) in [
            (BoxError::from(timeout::error::Elapsed::new()), RefusalKind::Timeout),
            (load_shed::error::Overloaded::new().into(), RefusalKind::Overloaded),
            (Refusal::new(RefusalKind::Denied, "no").into(), RefusalKind::Denied),
        ] {
            let error = BoxError::from(Wrapped(Box::new(Wrapped(error))));
            assert_eq!(refusal_of_any(&error), kind);
            assert_eq!(refusal_of(error, None).kind(), kind);
        }
    }

    #[test]
    fn the_text_of_an_unknown_error_is_no_part_of_the_message() {
        let refusal = refusal_of(Wrapped("token".into()).into(), None);
        assert_eq!(refusal.kind(), RefusalKind::Internal);
        assert!(!refusal.message().contains("hunter2") && !format!("{refusal:?}").contains("hunter2"));
        assert!(Error::source(&refusal).unwrap().to_string().contains("hunter2"));
    }

    #[test]
    fn a_classifier_recognises_what_this_crate_does_not() {
        let classify: Classify =
            Arc::new(|error| error.is::<Wrapped>().then(|| Refusal::new(RefusalKind::BreakerOpen, "later").with_by("mine")));
        let refusal = refusal_of(BoxError::from(Wrapped("x".into())), Some(&classify));
        assert_eq!((refusal.kind(), refusal.by()), (RefusalKind::BreakerOpen, "mine"));
    }

    #[test]
    fn a_circle_of_sources_ends() {
        #[derive(Debug)]
        struct Circle;
        impl std::fmt::Display for Circle {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("circle")
            }
        }
        impl Error for Circle {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&Self)
            }
        }
        assert_eq!(refusal_of(Circle.into(), None).kind(), RefusalKind::Internal);
    }
}
