use std::{fmt, sync::LazyLock, time::Duration};

use tokio::time::Instant;

/// An instant, or none, in eight bytes where the two take sixteen: a call is moved often, and carries two of them.
///
/// It holds nanoseconds, 292 years of them either way from the first use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment(i64);

#[allow(clippy::disallowed_types, reason = "a paused clock belongs to one runtime, and this is for all")]
static FIRST_USE: LazyLock<Instant> = LazyLock::new(|| Instant::from_std(std::time::Instant::now()));

impl Moment {
    pub(super) const NONE: Self = Self(i64::MIN);

    pub(super) fn at(instant: Instant) -> Self {
        let nanoseconds = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self(match instant.checked_duration_since(*FIRST_USE) {
            Some(after) => nanoseconds(after),
            None => -nanoseconds(FIRST_USE.duration_since(instant)),
        })
    }

    pub(super) fn instant(self) -> Option<Instant> {
        if self == Self::NONE {
            return None;
        }
        let distance = Duration::from_nanos(self.0.unsigned_abs());
        if self.0 < 0 { FIRST_USE.checked_sub(distance) } else { FIRST_USE.checked_add(distance) }
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.instant().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_comes_back_as_it_was_whenever_it_is() {
        let first = *FIRST_USE;
        for distance in [0, 1, 999_999_999, 1_000_000_001, 86_400_000_000_007] {
            let distance = Duration::from_nanos(distance);
            for instant in [first.checked_add(distance), first.checked_sub(distance)].into_iter().flatten() {
                assert_eq!(Moment::at(instant).instant(), Some(instant));
            }
        }
        assert_eq!(Moment::default().instant(), None);
    }

    #[test]
    fn an_instant_that_is_too_far_is_the_furthest_there_is() {
        let far = FIRST_USE.checked_add(Duration::from_secs(400 * 365 * 86_400)).unwrap();
        let kept = Moment::at(far).instant().unwrap();
        assert!(kept < far && kept > *FIRST_USE + Duration::from_secs(290 * 365 * 86_400));
    }
}
