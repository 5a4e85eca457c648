//! The loader of rules: any text is rules or an error, and rules come out as they went in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolstack::layer::permission::Rules;

fuzz_target!(|text: &str| {
    let Ok(rules) = Rules::from_json(text) else { return };
    let written = serde_json::to_string(&rules).expect("rules can be written");
    let again = Rules::from_json(&written).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).expect("and written again"), written);
});
