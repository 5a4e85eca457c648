//! The page with the table of features: each row names tests, and there are such tests.

use std::{fs, path::Path};

const PAGE: &str = include_str!("../../src/docs/features.md");

/// The tests that a line of the table names, each as the path of its module and its name.
fn named(line: &str) -> Vec<(Vec<&str>, &str)> {
    let cell = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    cell.split('`')
        .filter(|text| text.contains("::"))
        .map(|text| {
            let (module, test) = text.rsplit_once("::").unwrap();
            (module.split("::").collect(), test)
        })
        .collect()
}

fn is_a_test(module: &[&str], test: &str) -> bool {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let path = module.iter().fold(tests, |path, part| path.join(part));
    let Ok(source) = fs::read_to_string(path.with_extension("rs")).or_else(|_| fs::read_to_string(path.join("mod.rs"))) else {
        return false;
    };
    source
        .find(&format!("fn {test}("))
        .is_some_and(|at| source[..at].lines().rev().take(3).any(|line| line.trim().starts_with("#[") && line.contains("test")))
}

#[test]
fn every_row_of_the_table_of_features_names_tests_that_exist() {
    let rows: Vec<_> = PAGE.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #")).collect();
    assert!(rows.len() > 30, "{} rows", rows.len());
    for row in rows {
        let tests = named(row);
        assert!(!tests.is_empty(), "no test: {row}");
        for (module, test) in tests {
            assert!(is_a_test(&module, test), "there is no test {}::{test}", module.join("::"));
        }
    }
}

#[test]
fn a_test_that_does_not_exist_is_found_out() {
    assert_eq!(named("| 1 | x | `it::a`<br>`b::c::d` |"), [(vec!["it"], "a"), (vec!["b", "c"], "d")]);
    assert!(is_a_test(&["it", "features"], "every_row_of_the_table_of_features_names_tests_that_exist"));
    assert!(!is_a_test(&["it", "features"], "named"));
    assert!(!is_a_test(&["it", "features"], "no_such_test"));
    assert!(!is_a_test(&["it", "no_such_module"], "named"));
}
