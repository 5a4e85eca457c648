//! Which keys say that what stands under them is secret.

use std::{borrow::Cow, collections::BTreeSet};

use super::marks;

/// The words of [`Redactor::common_keys`](super::Redactor::common_keys). Their plurals count too, but not that of `token`, which is what
/// models are billed by.
const COMMON: &[&str] = &[
    "access_key",
    "access_token",
    "account_key",
    "admin_pass",
    "api_key",
    "api_token",
    "app_key",
    "auth_key",
    "auth_token",
    "authorization",
    "bearer",
    "client_secret",
    "cookie",
    "credential",
    "cvc",
    "cvv",
    "db_pass",
    "deploy_key",
    "encryption_key",
    "id_token",
    "jwt",
    "license_key",
    "mail_pass",
    "master_key",
    "mysql_pass",
    "otp",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "pg_pass",
    "private_key",
    "pwd",
    "redis_pass",
    "refresh_token",
    "root_pass",
    "secret",
    "secret_key",
    "session_key",
    "session_token",
    "signing_key",
    "smtp_pass",
    "ssh_key",
    "token",
    "user_pass",
];

/// What a key ends with that tells of a secret and is none: `token_type`, `password_policy`.
const TELLS_OF: &[&str] = &[
    "age",
    "algorithm",
    "at",
    "budget",
    "count",
    "created",
    "dir",
    "enabled",
    "endpoint",
    "expired",
    "expires",
    "expiry",
    "file",
    "fingerprint",
    "format",
    "length",
    "limit",
    "name",
    "path",
    "policy",
    "required",
    "size",
    "ttl",
    "type",
    "updated",
    "uri",
    "url",
    "usage",
    "used",
    "valid",
    "version",
];

/// What makes a token that follows a place in a list, a word of a model's, or a request's: `next_page_token`, `eos_token`, `progressToken`.
const NO_SECRET_TOKEN: &[&str] = &[
    "bos",
    "continuation",
    "cursor",
    "delta",
    "eos",
    "mask",
    "max",
    "min",
    "next",
    "pad",
    "page",
    "pagination",
    "prev",
    "previous",
    "progress",
    "resume",
    "special",
    "start",
    "starting",
    "stop",
    "sync",
    "unk",
];

/// A term that is shorter counts only as whole words: `secret` is found in `clientsecret`, `pwd` is not in `cpwd`.
const LONG: usize = 6;

/// Terms, and how they are found in keys. A term is kept in lower case, and without what parts its words.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    terms: BTreeSet<String>,
    except: BTreeSet<String>,
    longest: usize,
    /// How long the long ones are.
    lengths: BTreeSet<usize>,
}

impl Keys {
    pub(super) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    pub(super) fn terms(&self) -> &BTreeSet<String> {
        &self.terms
    }

    pub(super) fn add(&mut self, key: &str) {
        let term = Words::of(key).joined;
        if term.is_empty() {
            return;
        }
        self.longest = self.longest.max(term.len());
        if term.len() >= LONG {
            self.lengths.insert(term.len());
        }
        self.terms.insert(term);
    }

    pub(super) fn add_common(&mut self) {
        for key in COMMON {
            self.add(key);
            if *key != "token" {
                self.add(&format!("{key}s"));
            }
        }
    }

    pub(super) fn except(&mut self, key: &str) {
        self.except.insert(Words::of(key).joined);
    }

    pub(super) fn and(&mut self, other: &Self) {
        other.terms.iter().for_each(|term| self.add(term));
        self.except.extend(other.except.iter().cloned());
    }

    /// Whether what stands under this key is hidden.
    pub(super) fn hides(&self, key: &str) -> bool {
        if self.terms.is_empty() {
            return false;
        }
        let key = marks::without(key);
        let words = Words::of(&key);
        !self.except.contains(&words.joined) && (0..words.len()).any(|at| self.run_from(&words, at) || self.ends(words.word(at)))
    }

    /// Whether a run of words that begins here is a term.
    fn run_from(&self, words: &Words, from: usize) -> bool {
        let last = words.len() - 1;
        (from..=last)
            .map(|to| (to, words.run(from, to)))
            .take_while(|(_, run)| run.len() <= self.longest)
            .filter(|(_, run)| self.terms.contains(*run))
            .any(|(to, run)| {
                let tells = to < last && TELLS_OF.contains(&words.word(last));
                let harmless = run == "token" && from > 0 && NO_SECRET_TOKEN.contains(&words.word(from - 1));
                !tells && !harmless
            })
    }

    /// Whether a word ends with a long term.
    fn ends(&self, word: &str) -> bool {
        self.lengths.iter().take_while(|len| **len < word.len()).any(|len| {
            let at = word.len() - len;
            word.is_char_boundary(at) && self.terms.contains(&word[at..])
        })
    }
}

/// The last word of a key, in lower case.
pub(super) fn last_word(key: &str) -> Cow<'_, str> {
    let words = Words::of(key);
    match words.len().checked_sub(1) {
        Some(last) => Cow::Owned(words.word(last).to_owned()),
        None => Cow::Borrowed(""),
    }
}

/// A key taken apart: at whatever is neither letter nor digit, where a capital begins a word, and between letters and digits.
struct Words {
    joined: String,
    /// Where each word begins, and where the last one ends.
    bounds: Vec<usize>,
}

impl Words {
    fn of(key: &str) -> Self {
        #[derive(Clone, Copy, PartialEq)]
        enum Is {
            Other,
            Small,
            Capital,
            Digit,
        }
        let class = |c: char| match c {
            c if c.is_uppercase() => Is::Capital,
            c if c.is_alphabetic() => Is::Small,
            c if c.is_numeric() => Is::Digit,
            _ => Is::Other,
        };
        let (mut joined, mut bounds) = (String::with_capacity(key.len()), Vec::with_capacity(4));
        let mut before = Is::Other;
        let mut chars = key.chars().peekable();
        while let Some(c) = chars.next() {
            let is = class(c);
            if is != Is::Other {
                let next_is_small = chars.peek().is_some_and(|next| class(*next) == Is::Small);
                let begins = match (before, is) {
                    (Is::Other, _) | (Is::Small, Is::Capital) => true,
                    (Is::Capital, Is::Capital) => next_is_small,
                    (Is::Digit, now) => now != Is::Digit,
                    (_, Is::Digit) => true,
                    _ => false,
                };
                if begins {
                    bounds.push(joined.len());
                }
                joined.extend(c.to_lowercase());
            }
            before = is;
        }
        bounds.push(joined.len());
        Self { joined, bounds }
    }

    fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    fn word(&self, at: usize) -> &str {
        self.run(at, at)
    }

    fn run(&self, from: usize, to: usize) -> &str {
        &self.joined[self.bounds[from]..self.bounds[to + 1]]
    }
}
