use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// One call of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// When it ended, in nanoseconds of the metrics' time.
    pub(super) ended: u64,
    /// How long it took, in nanoseconds.
    pub(super) took: u64,
    /// Of which tool it was.
    pub(super) tool: u32,
    /// How it ended.
    pub(super) outcome: u32,
}

/// The last calls that ended on one thread. That thread alone writes; any may read meanwhile.
pub(super) struct Window {
    words: Box<[AtomicU64]>,
    /// How many entries were begun.
    begun: AtomicU64,
    /// How many entries were written.
    written: AtomicU64,
    /// Where among the words the next entry is written: to divide for it would cost a call more than the writing.
    next: AtomicUsize,
}

const WORDS: usize = 3;

impl Window {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            words: (0..capacity * WORDS).map(|_| AtomicU64::new(0)).collect(),
            begun: AtomicU64::new(0),
            written: AtomicU64::new(0),
            next: AtomicUsize::new(0),
        }
    }

    fn capacity(&self) -> usize {
        self.words.len() / WORDS
    }

    fn place(&self, number: u64) -> Option<&[AtomicU64]> {
        let at = usize::try_from(number % self.capacity() as u64).ok()? * WORDS;
        self.words.get(at..at + WORDS)
    }

    /// Writes an entry, in the place of the oldest one. To be called by one thread only.
    #[inline]
    pub(super) fn push(&self, entry: Entry) {
        if self.words.is_empty() {
            return;
        }
        let number = self.written.load(Ordering::Relaxed);
        let at = self.next.load(Ordering::Relaxed);
        if let Some([ended, took, which]) = self.words.get(at..at + WORDS) {
            self.begun.store(number + 1, Ordering::Relaxed);
            // Whoever reads one of the words sees that it was begun.
            fence(Ordering::Release);
            ended.store(entry.ended, Ordering::Relaxed);
            took.store(entry.took, Ordering::Relaxed);
            which.store(u64::from(entry.tool) << 32 | u64::from(entry.outcome), Ordering::Relaxed);
        }
        let after = at + WORDS;
        self.next.store(if after < self.words.len() { after } else { 0 }, Ordering::Relaxed);
        self.written.store(number + 1, Ordering::Release);
    }

    /// The entries, oldest first, without any that was written over meanwhile.
    pub(super) fn read(&self) -> Vec<Entry> {
        let capacity = self.capacity() as u64;
        if capacity == 0 {
            return Vec::new();
        }
        let written = self.written.load(Ordering::Acquire);
        let first = written.saturating_sub(capacity);
        let entries: Vec<_> = (first..written).filter_map(|number| Some((number, self.entry(number)?))).collect();
        fence(Ordering::Acquire);
        let overwritten = self.begun.load(Ordering::Relaxed).saturating_sub(capacity);
        entries.into_iter().filter(|(number, _)| *number >= overwritten).map(|(_, entry)| entry).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "two halves of a word")]
    fn entry(&self, number: u64) -> Option<Entry> {
        let [ended, took, which] = self.place(number)? else { return None };
        let [ended, took, which] = [ended, took, which].map(|word| word.load(Ordering::Relaxed));
        Some(Entry { ended, took, tool: (which >> 32) as u32, outcome: which as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> Entry {
        Entry { ended: number, took: number, tool: 7, outcome: 1 }
    }

    #[test]
    fn the_last_entries_are_there_oldest_first() {
        let window = Window::new(3);
        assert_eq!(window.read(), []);
        for number in 0..5 {
            window.push(entry(number));
        }
        assert_eq!(window.read(), [2, 3, 4].map(entry));
    }

    #[test]
    fn a_window_without_room_keeps_nothing() {
        let window = Window::new(0);
        window.push(entry(1));
        assert_eq!(window.read(), []);
    }

    #[test]
    fn what_is_read_while_another_thread_writes_is_whole() {
        let window = Window::new(64);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..200_000).for_each(|number| window.push(entry(number))));
            while !writer.is_finished() {
                let entries = window.read();
                assert!(entries.iter().all(|entry| entry.ended == entry.took && entry.tool == 7 && entry.outcome == 1));
                assert!(entries.is_sorted_by_key(|entry| entry.ended));
            }
        });
        assert_eq!(window.read().len(), 64);
    }
}
