//! Patterns for names, tests of arguments and patterns for commands, on any text: none panics, and a pattern agrees with a naive one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolstack::{
    layer::permission::{ArgumentRule, ShellPattern},
    select::Pattern,
};

/// The pattern by definition: `*` is any text, everything else itself.
fn naive(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|at| naive(rest, &text[at..])),
        Some((first, rest)) => text.first() == Some(first) && naive(rest, &text[1..]),
    }
}

fuzz_target!(|input: (&str, &str, &str)| {
    let (pattern, text, json) = input;
    if let Ok(known) = Pattern::new(pattern) {
        let matched = known.matches(text);
        let plain = !pattern.contains(['?', '[', ']', '{', '}', '\\', '!']) && pattern.matches('*').count() < 5;
        if plain && pattern.len() < 40 && text.len() < 40 {
            let (pattern, text): (Vec<_>, Vec<_>) = (pattern.chars().collect(), text.chars().collect());
            assert_eq!(matched, naive(&pattern, &text));
        }
    }
    if let Ok(pattern) = ShellPattern::new(pattern) {
        let _ = pattern.matches(text);
    }
    if let Ok(arguments) = serde_json::from_str(json) {
        for test in [ArgumentRule::glob(pattern, text), ArgumentRule::prefix(pattern, text), ArgumentRule::within(pattern, text)] {
            let _ = test.map(|test| test.evaluate(&arguments));
        }
    }
});
