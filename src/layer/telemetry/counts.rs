use std::fmt;

use crate::model::Outcome;

/// How many operations ended in each way.
#[derive(Clone, PartialEq, Eq)]
pub struct Counts([u64; Outcome::COUNT]);

impl Counts {
    /// All that ended.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that ended like this.
    #[must_use]
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome.index()]
    }

    /// Those that the caller dropped.
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.of(Outcome::Cancelled)
    }

    /// Those that [failed](Outcome::is_error), without those that the caller dropped.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.iter().filter(|(outcome, _)| outcome.is_error() && *outcome != Outcome::Cancelled).map(|(_, count)| count).sum()
    }

    /// The share of those that did not fail, of those that the caller waited for: between 0 and 1, and 1 where there are none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn success_rate(&self) -> f64 {
        let awaited = self.total() - self.cancelled();
        if awaited == 0 { 1.0 } else { (awaited - self.errors()) as f64 / awaited as f64 }
    }

    /// The outcomes that there were.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, u64)> {
        let counted = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.filter_map(|(index, count)| Some((Outcome::of_index(index)?, *count)))
    }

    /// The failures, most frequent first; those of one frequency by name.
    #[must_use]
    pub fn top_errors(&self, most: usize) -> Vec<(Outcome, u64)> {
        let mut errors: Vec<_> = self.iter().filter(|(outcome, _)| outcome.is_error() && *outcome != Outcome::Cancelled).collect();
        errors.sort_by(|(one, fewer), (other, more)| more.cmp(fewer).then_with(|| one.as_str().cmp(other.as_str())));
        errors.truncate(most);
        errors
    }

    pub(super) fn add(&mut self, index: usize, count: u64) {
        if let Some(old) = self.0.get_mut(index) {
            *old = old.saturating_add(count);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (index, count) in other.0.iter().enumerate() {
            self.add(index, *count);
        }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self([0; Outcome::COUNT])
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(outcome, count)| (outcome.as_str(), count))).finish()
    }
}
