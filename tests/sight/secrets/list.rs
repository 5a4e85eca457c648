//! The list of types is as long as the sources say: a new type that may hold a secret is named, or it is said why it holds none.

use std::{fs, path::Path};

use super::types::everything;

/// What a field is called that may hold a secret.
const WORDS: [&str; 16] = [
    "token",
    "secret",
    "passw",
    "claims",
    "arguments",
    "answer",
    "state",
    "url",
    "code",
    "session",
    "text",
    "data",
    "blob",
    "baggage",
    "input",
    "structured",
];

/// Types with a field of such a name that hold none, and why.
const HOLD_NONE: [(&str, &str); 28] = [
    ("AuditRecord", "it has digests and what is redacted; of a session its name: records are for those who may know it"),
    ("RecommendedLayer", "its layers show themselves"),
    ("Recommended", "its settings show themselves"),
    ("Settings", "they name where a secret is"),
    ("Authenticate", "of the settings: it names where a secret is; of the layer: it shows its verifiers' names"),
    ("Audit", "of the settings: it names where a secret is"),
    ("Redact", "of the settings: which kinds are hidden"),
    ("Session", "of the settings: the names of arguments"),
    ("Telemetry", "whether something is recorded"),
    ("Rule", "what its writer compares arguments with, to be read and explained"),
    ("Example", "what its writer compares arguments with, to be read and explained"),
    ("StepUpRule", "what its writer compares arguments with, to be read and explained"),
    ("Describe", "its context shows itself"),
    ("ShellPattern", "a pattern of its writer's"),
    ("Pattern", "a pattern of its writer's"),
    ("ExternalError", "the code that a program ended with"),
    ("OAuthError", "the code of an error, one of those that a standard names"),
    ("BeforeCall", "it shows the call, which shows itself"),
    ("Question", "it shows the request, of which the call shows itself"),
    ("Contract", "of tests"),
    ("Held", "its call shows itself"),
    ("Listed", "its context shows itself"),
    ("Reentry", "it shows the id of the call alone"),
    ("TerminalApprover", "how to read from a terminal"),
    ("ToolSpec", "what everybody may read who may list the tool"),
    ("BearerChallenge", "what everybody is told who lacks something"),
    ("ResponseFuture", "its state shows nothing"),
    ("EnteredFuture", "its state shows nothing"),
];

/// The public types of a file with the names of their fields, and what they are.
fn types(source: &str) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    let mut open: Option<(String, Vec<String>)> = None;
    for line in source.lines() {
        let text = line.trim();
        if let Some((_, fields)) = &mut open {
            if line.starts_with('}') || line.starts_with("    }") && line.len() == 5 && fields.is_empty() {
                all.extend(open.take());
            } else if !text.starts_with('/') && !text.starts_with('#') {
                // A variant may have all of its fields on one line.
                for part in text.split(['{', ',', '(']) {
                    let name = part.trim().trim_start_matches("pub ").split(": ").next().unwrap_or_default();
                    if part.contains(": ") && name.chars().all(|char| char.is_ascii_lowercase() || char == '_') {
                        fields.push(name.to_owned());
                    }
                }
            }
        } else if let Some(rest) = text.strip_prefix("pub struct ").or_else(|| text.strip_prefix("pub enum "))
            && text.ends_with('{')
        {
            // What a macro makes has its name elsewhere.
            if rest.starts_with('$') {
                continue;
            }
            let name = rest.chars().take_while(|char| char.is_alphanumeric()).collect();
            open = Some((name, Vec::new()));
        }
    }
    all
}

fn files(folder: &Path, all: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
}

#[test]
fn every_type_that_may_hold_a_secret_is_among_those_that_are_tried() {
    let mut sources = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
    let tried: Vec<&str> = everything("s").into_iter().map(|(name, _)| name).collect();
    let (mut found, mut unknown) = (0, Vec::new());
    for source in sources {
        for (name, fields) in types(&fs::read_to_string(source).unwrap()) {
            if fields.iter().any(|field| WORDS.iter().any(|word| field.contains(word))) {
                found += 1;
                if !tried.contains(&name.as_str()) && !HOLD_NONE.iter().any(|(none, _)| *none == name) {
                    unknown.push(format!("{name}: {fields:?}"));
                }
            }
        }
    }
    assert!(found > 30, "only {found} were found");
    assert!(unknown.is_empty(), "neither tried nor excused:\n{}", unknown.join("\n"));
}

#[test]
fn fields_are_found_in_structs_and_in_variants() {
    let source = "/// T\npub struct One {\n    /// A token: it\n    pub token: String,\n}\npub enum Two {\n    A { url: String, x: u8 },\n}\nstruct No {\n    secret: u8,\n}\n";
    let expected = [("One", vec!["token"]), ("Two", vec!["url", "x"])];
    let expected = expected.map(|(name, fields)| (name.to_owned(), fields.into_iter().map(str::to_owned).collect::<Vec<_>>()));
    assert_eq!(types(source), expected);
}
