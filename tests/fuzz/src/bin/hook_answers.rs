//! The answers of external hooks: any bytes are an answer or an error, and no answer allows that does not say so.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolstack::layer::hooks::external::{Answer, Decision, ExternalEvent};

fuzz_target!(|bytes: &[u8]| {
    for event in [ExternalEvent::PreToolUse, ExternalEvent::PostToolUse] {
        let Ok(answer) = Answer::parse(event, bytes) else { continue };
        assert!(answer.reason.is_none_or(|reason| !reason.contains(|c: char| c.is_control() && c != '\n' && c != '\t')));
        let text = std::str::from_utf8(bytes).expect("an answer is text");
        assert!(answer.decision != Decision::Allow || text.contains('{'));
    }
});
