use std::time::Duration;

use hdrhistogram::Histogram;

/// How long some operations took.
///
/// A quantile is that of the nearest rank: the smallest duration that at least this share of the operations took no longer than. It is
/// never beyond the longest one, so that of one operation is that operation's. It is given within 0.1 %, rounded up; the shortest, the
/// longest and the mean are exact.
///
/// ```
/// use std::time::Duration;
/// use toolstack::layer::telemetry::Latency;
///
/// let latency: Latency = (0..20).map(Duration::from_secs).collect();
/// assert_eq!(latency.quantile(0.95).unwrap().as_secs(), 18);
/// assert_eq!(latency.max(), Some(Duration::from_secs(19)));
/// assert_eq!(Latency::default().quantile(0.5), None);
/// ```
#[derive(Clone, Debug)]
pub struct Latency {
    nanos: Histogram<u32>,
    sum: u128,
    least: u64,
    most: u64,
}

/// Three significant digits.
const DIGITS: u8 = 3;

impl Default for Latency {
    fn default() -> Self {
        // It grows with what it is given.
        let nanos = Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("three digits are what such a histogram can have"));
        Self { nanos, sum: 0, least: u64::MAX, most: 0 }
    }
}

impl Latency {
    pub(super) fn record(&mut self, nanos: u64) {
        // It makes room for whatever comes, and takes the longest there can be as a little less.
        if self.nanos.record(nanos).is_err() {
            self.nanos.saturating_record(nanos);
        }
        self.sum += u128::from(nanos);
        self.least = self.least.min(nanos);
        self.most = self.most.max(nanos);
    }

    /// How many operations it is made of.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.nanos.len()
    }

    /// How long the operations of this share took at most; `None` without operations. The share is taken as one between 0 and 1.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        self.some(self.nanos.value_at_quantile(share.clamp(0.0, 1.0)).clamp(self.least, self.most.max(self.least)))
    }

    /// The shortest.
    #[must_use]
    pub fn min(&self) -> Option<Duration> {
        self.some(self.least)
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        self.some(self.most)
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.checked_div(u128::from(self.count()))?;
        self.some(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    fn some(&self, nanos: u64) -> Option<Duration> {
        (self.count() > 0).then(|| Duration::from_nanos(nanos))
    }
}

impl FromIterator<Duration> for Latency {
    fn from_iter<I: IntoIterator<Item = Duration>>(durations: I) -> Self {
        let mut latency = Self::default();
        for duration in durations {
            latency.record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        }
        latency
    }
}
