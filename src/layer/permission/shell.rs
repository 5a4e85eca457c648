//! Commands of a shell, told apart before they are matched.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Truth;
use crate::select::Pattern;

/// A pattern for one simple command of a POSIX shell: `git log *`, `ls`, `cargo test --*`.
///
/// It is matched word by word: each word of the pattern is a [`Pattern`], and a last word `*` stands for any number of further words.
/// The command itself is split first, at `;`, `&`, `&&`, `||`, `|` and line ends, and every one of its parts has to fit. What is not plain
/// words (a substitution, a redirection, a variable, a glob, an assignment in front, a command such as `sudo` or `xargs` that runs
/// another) cannot be told, and so is never allowed by a pattern.
///
/// What a command does with its own options is not looked at: `git` and many others run programs that their options name. Allow what
/// is harmless with any option.
///
/// ```
/// use toolstack::layer::permission::{ShellPattern, Truth};
///
/// let git = ShellPattern::new("git log *")?;
/// assert_eq!(git.matches("git log --oneline"), Truth::True);
/// assert_eq!(git.matches("ls"), Truth::False);
/// assert_eq!(git.matches("git log; rm -rf /"), Truth::Unknown);
/// assert_eq!(git.matches("git log $(rm x)"), Truth::Unknown);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct ShellPattern {
    text: Box<str>,
    words: Vec<Pattern>,
    /// Whether any number of words may follow.
    open: bool,
}

impl ShellPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// If it is empty, or a word of it is no pattern.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let mut words: Vec<&str> = pattern.split_ascii_whitespace().collect();
        let open = words.last() == Some(&"*");
        if open {
            words.pop();
        }
        if words.is_empty() {
            return Err("a shell pattern names a command first".to_owned());
        }
        let words: Result<Vec<_>, _> = words.into_iter().map(Pattern::new).collect();
        Ok(Self { text: pattern.into(), words: words.map_err(|error| error.to_string())?, open })
    }

    /// Whether every part of `command` fits: true if all do, false if none does, and unknown for anything else.
    #[must_use]
    pub fn matches(&self, command: &str) -> Truth {
        all_fit(std::slice::from_ref(self), command)
    }

    fn fits(&self, words: &[String]) -> bool {
        let enough = if self.open { words.len() >= self.words.len() } else { words.len() == self.words.len() };
        enough && self.words.iter().zip(words).all(|(pattern, word)| pattern.matches(word))
    }
}

/// Whether every part of `command` fits one of the patterns.
pub(super) fn all_fit(patterns: &[ShellPattern], command: &str) -> Truth {
    let Some(commands) = split(command) else { return Truth::Unknown };
    let any = |words: &[String]| patterns.iter().any(|pattern| pattern.fits(words));
    let fits = |words: &Vec<String>| match words.first().and_then(|program| program.rsplit_once('/')) {
        // By another way it may be the same program, or another one of that name.
        Some((_, name)) if !any(words) => {
            let named: Vec<String> = std::iter::once(name.to_owned()).chain(words[1..].iter().cloned()).collect();
            if any(&named) { Truth::Unknown } else { Truth::False }
        }
        _ => any(words).into(),
    };
    commands.iter().map(fits).reduce(Truth::agree).unwrap_or(Truth::Unknown)
}

/// The longest command that is looked at, in bytes.
const MAX_LENGTH: usize = 64 * 1024;

/// Words that begin something other than a simple command, or that run another command.
const NOT_PLAIN: &[&str] = &[
    "!",
    "[[",
    "{",
    "}",
    "case",
    "coproc",
    "do",
    "done",
    "elif",
    "else",
    "esac",
    "fi",
    "for",
    "function",
    "if",
    "in",
    "select",
    "then",
    "time",
    "until",
    "while",
    ".",
    "alias",
    "builtin",
    "busybox",
    "chroot",
    "chrt",
    "command",
    "doas",
    "env",
    "eval",
    "exec",
    "export",
    "find",
    "flock",
    "ionice",
    "nice",
    "nohup",
    "nsenter",
    "parallel",
    "pkexec",
    "runuser",
    "script",
    "setarch",
    "setsid",
    "source",
    "ssh",
    "stdbuf",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "timeout",
    "trap",
    "unshare",
    "watch",
    "xargs",
    "ash",
    "bash",
    "csh",
    "dash",
    "fish",
    "ksh",
    "sh",
    "tcsh",
    "zsh",
];

/// The simple commands of a shell text, each as its words; `None` where that cannot be told.
fn split(text: &str) -> Option<Vec<Vec<String>>> {
    if text.len() > MAX_LENGTH {
        return None;
    }
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    // Whether an operator waits for the command behind it.
    let mut waits = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\n' | ';' | '&' | '|' => {
                words.extend(word.take());
                // `&&` and `||` are one; `;;`, `|&` and the like are not plain.
                let doubled = matches!(c, '&' | '|') && chars.next_if_eq(&c).is_some();
                let empty = words.is_empty();
                if c != '\n' && (matches!(chars.peek(), Some(';' | '&' | '|')) || (empty && (waits || doubled || c != ';'))) {
                    return None;
                }
                waits = (waits && empty) || doubled || c == '|';
                if !empty {
                    commands.push(std::mem::take(&mut words));
                }
            }
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        '\0' => return None,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '$' | '`' | '\\' | '!' | '\0' => return None,
                        c => word.push(c),
                    }
                }
            }
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' | '/' | ':' | '@' | '%' | '+' | ',' => {
                word.get_or_insert_default().push(c);
            }
            // An assignment before the command changes what the command is; further on it is a word like any other.
            '=' if !words.is_empty() => word.get_or_insert_default().push(c),
            _ => return None,
        }
    }
    words.extend(word.take());
    if !words.is_empty() {
        commands.push(words);
    } else if waits {
        return None;
    }
    let plain = |words: &Vec<String>| {
        words.first().is_some_and(|first| {
            let name = first.rsplit('/').next().unwrap_or(first);
            !name.is_empty() && !NOT_PLAIN.contains(&name) && !first.contains('=')
        })
    };
    (!commands.is_empty() && commands.iter().all(plain)).then_some(commands)
}

impl PartialEq for ShellPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for ShellPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for ShellPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Serialize for ShellPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for ShellPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_commands_are_split_into_their_words() {
        let words = |text: &str| split(text).map(|all| all.iter().map(|words| words.join("|")).collect::<Vec<_>>());
        assert_eq!(words("git log 'a b' \"c d\"e"), Some(vec!["git|log|a b|c de".to_owned()]));
        assert_eq!(words("a; b && c || d | e & f\n g;"), Some("abcdefg".chars().map(String::from).collect()));
        assert_eq!(words("a |\n\n b &&\nc &"), Some("abc".chars().map(String::from).collect()));
        assert_eq!(words("make CC=gcc"), Some(vec!["make|CC=gcc".to_owned()]));
    }

    #[test]
    fn what_is_not_plain_cannot_be_told() {
        for text in [
            "",
            " ",
            ";",
            "&& a",
            "a ;; b",
            "a |& b",
            "a > b",
            "a < b",
            "a $b",
            "a $(b)",
            "a `b`",
            "a \"$(b)\"",
            "a \\; b",
            "a 'b",
            "a \"b",
            "(a)",
            "{ a; }",
            "a *",
            "a ?",
            "a [b]",
            "a ~",
            "a #b",
            "A=1 b",
            "sudo a",
            "/usr/bin/env a",
            "xargs a",
            "sh -c a",
            "if a",
            "! a",
            "a\rb",
            "a\u{a0}b",
            "a\0b",
            "a | | b",
            "a |",
            "a | \n\t",
            "a &&",
            "a || ",
            "a && ; b",
            "a |\n; b",
            "a <<x",
            "a\u{b}b",
            "'A'=1",
            "time a",
            "a\\\nb",
            "bash",
        ] {
            assert_eq!(split(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_program_by_its_path_may_be_the_one_that_is_named() {
        let remove = ShellPattern::new("rm *").unwrap();
        for command in ["/bin/rm -rf x", "./rm x", "/bin/rm x; /usr/bin/rm y"] {
            assert_eq!(remove.matches(command), Truth::Unknown, "{command}");
        }
        assert_eq!(remove.matches("/bin/ls x"), Truth::False);
        assert_eq!(ShellPattern::new("/bin/rm *").unwrap().matches("/bin/rm x"), Truth::True);
    }

    proptest! {
        #[test]
        fn whatever_is_appended_to_a_plain_command_is_matched_or_not_allowed(tail in "[ -~\n\t]{1,12}") {
            let pattern = ShellPattern::new("git log").unwrap();
            let allowed = pattern.matches(&format!("git log{tail}")) == Truth::True;
            // All that may be appended without being another command is blanks, empty parts and the same command again.
            let rest: String = tail.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '\'' | '"')).collect();
            prop_assert!(!allowed || rest.is_empty() || tail.contains("git log"), "{:?}", tail);
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = split(&text);
        }
    }
}
