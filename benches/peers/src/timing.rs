//! Times cases side by side: round by round, so that whatever else the machine does meets them all alike, in samples short enough that
//! most are not interrupted. Only what is compared within one round means something.

#[allow(clippy::disallowed_types, reason = "real time is what is measured")]
use std::time::Instant;
use std::{collections::HashMap, time::Duration};

pub struct Case {
    name: &'static str,
    work: Box<dyn FnMut(u64)>,
}

/// `work` does what is timed as often as it is told.
pub fn case(name: &'static str, work: impl FnMut(u64) + 'static) -> Case {
    Case { name, work: Box::new(work) }
}

/// Nanoseconds of each case in each round.
pub struct Timed(HashMap<&'static str, Vec<f64>>);

impl Timed {
    /// How many times as long the one takes: the median over the rounds.
    pub fn ratio(&self, case: &str, base: &str) -> f64 {
        self.median(case, base, |case, base| case / base)
    }

    /// How many nanoseconds longer the one takes: the median over the rounds.
    pub fn added(&self, case: &str, base: &str) -> f64 {
        self.median(case, base, |case, base| case - base)
    }

    pub fn ns(&self, case: &str) -> f64 {
        self.median(case, case, |case, _| case)
    }

    fn median(&self, case: &str, base: &str, compare: impl Fn(f64, f64) -> f64) -> f64 {
        let mut all: Vec<f64> = self.0[case].iter().zip(&self.0[base]).map(|(case, base)| compare(*case, *base)).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }
}

/// Nanoseconds of one of as many as `work` is told to do.
pub fn elapsed(count: u64, work: impl FnOnce(u64)) -> f64 {
    let start = Instant::now();
    work(count);
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Times the cases of one group and prints them.
pub fn group(title: &str, rounds: usize, sample: Duration, mut cases: Vec<Case>) -> Timed {
    let counts: Vec<u64> = cases
        .iter_mut()
        .map(|case| {
            // The first is warmed up by the others.
            let once = [1, 4, 16, 64].map(|count| elapsed(count, &mut case.work)).into_iter().fold(f64::MAX, f64::min);
            ((sample.as_nanos() as f64 / once) as u64).max(1)
        })
        .collect();
    let mut timed: Vec<Vec<f64>> = vec![Vec::with_capacity(rounds); cases.len()];
    for _ in 0..rounds {
        for ((case, count), samples) in cases.iter_mut().zip(&counts).zip(&mut timed) {
            samples.push(elapsed(*count, &mut case.work));
        }
    }
    of(title, cases.iter().map(|case| case.name).zip(timed).collect())
}

/// Prints what was timed.
pub fn of(title: &str, samples: Vec<(&'static str, Vec<f64>)>) -> Timed {
    println!("\n{title} ({} rounds)", samples[0].1.len());
    let timed = Timed(samples.iter().cloned().collect());
    for (name, samples) in samples {
        let least = samples.into_iter().fold(f64::MAX, f64::min);
        println!("  {name:<56} median {:>10}  least {:>10}", pretty(timed.ns(name)), pretty(least));
    }
    timed
}

fn pretty(ns: f64) -> String {
    match ns {
        ns if ns < 10_000.0 => format!("{ns:.1} ns"),
        ns if ns < 10_000_000.0 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

/// Says of each budget whether it holds.
#[derive(Default)]
pub struct Budgets {
    lines: Vec<String>,
    broken: usize,
}

impl Budgets {
    pub fn check(&mut self, what: &str, have: f64, limit: f64) {
        let verdict = if have <= limit { "holds" } else { "BROKEN" };
        self.broken += usize::from(have > limit);
        self.lines.push(format!("  {what:<74} {have:>8.3} of at most {limit:>8.3}  {verdict}"));
    }

    /// Prints the verdicts; whether all hold.
    pub fn all_hold(&self) -> bool {
        println!("\nbudgets\n{}", self.lines.join("\n"));
        self.broken == 0
    }
}
