use std::time::Duration;

use proptest::prelude::*;
use toolstack::layer::telemetry::Latency;

fn exact(sorted: &[Duration], share: f64) -> Duration {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the definition, at small numbers"
    )]
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// The nearest rank's, no less and at most 0.1 % more.
fn agrees(durations: &[Duration], share: f64) -> bool {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let (exact, given) = (exact(&sorted, share), durations.iter().copied().collect::<Latency>().quantile(share).unwrap());
    exact <= given && given.as_nanos() <= exact.as_nanos() * 1_001 / 1_000 + 1
}

fn up_to(count: u64) -> Vec<Duration> {
    (0..count).map(Duration::from_secs).collect()
}

#[test]
fn h07_small_windows_are_as_documented() {
    let none = Latency::default();
    assert_eq!((none.count(), none.quantile(0.5), none.min(), none.max(), none.mean()), (0, None, None, None, None));
    for count in [1, 2, 3, 20, 100] {
        let durations = up_to(count);
        for share in [0.0, 0.5, 0.95, 0.99, 1.0] {
            assert!(agrees(&durations, share), "{share} of {count}");
        }
    }
    let quantile = |count, share| up_to(count).into_iter().collect::<Latency>().quantile(share).unwrap().as_secs();
    assert_eq!(quantile(20, 0.95), 18);
    assert_eq!((quantile(100, 0.99), quantile(100, 1.0)), (98, 99));
    assert_eq!((quantile(2, 0.5), quantile(3, 0.5)), (0, 1));
}

#[test]
fn h07_one_call_is_every_quantile_of_itself_and_nothing_is_beyond_the_longest() {
    let odd = Duration::from_nanos(123_456_789);
    let one: Latency = [odd].into_iter().collect();
    let same: Latency = [odd; 50].into_iter().collect();
    for share in [-1.0, 0.0, 0.5, 0.99, 1.0, 7.0, f64::NAN] {
        assert_eq!((one.quantile(share), same.quantile(share)), (Some(odd), Some(odd)), "{share}");
    }
    assert_eq!((same.mean(), same.min(), same.max()), (Some(odd), Some(odd), Some(odd)));
}

#[test]
fn durations_of_any_length_are_taken() {
    let latency: Latency = [Duration::ZERO, Duration::MAX].into_iter().collect();
    assert_eq!((latency.count(), latency.min()), (2, Some(Duration::ZERO)));
    assert!(latency.quantile(1.0) >= latency.quantile(0.1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn quantiles_agree_with_exact_ones_within_what_is_stated(
        nanos in prop::collection::vec(prop_oneof![0..1_000_u64, 0..1_000_000_000_u64, 0..100_000_000_000_000_u64], 1..2_000),
        share in 0.001_f64..1.0,
    ) {
        let durations: Vec<_> = nanos.into_iter().map(Duration::from_nanos).collect();
        for share in [share, 0.5, 0.95, 0.99, 1.0] {
            prop_assert!(agrees(&durations, share), "{}", share);
        }
    }
}
