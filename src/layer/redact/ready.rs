//! Detectors for common secrets and personal data. The table in the docs of [`Redactor`](super::Redactor) names them all.

use std::{ops::Range, sync::LazyLock};

use super::Detector;

fn any(_: &str) -> bool {
    true
}

/// A word after `bearer` is a token if it looks like none of a language.
fn token(found: &str) -> bool {
    found.len() >= 20 || found.bytes().any(|b| b.is_ascii_digit())
}

fn social_security(found: &str) -> bool {
    let (area, rest) = found.split_at(3);
    !matches!(area, "000" | "666") && !area.starts_with('9') && &rest[1..3] != "00" && &rest[4..] != "0000"
}

const SECRETS: &[(&str, &str, fn(&str) -> bool)] = &[
    (
        "private_key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\z)",
        any,
    ),
    ("jwt", r"eyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*", any),
    ("bearer", r"(?i)(?-u:\b)bearer[ \t]+([A-Za-z0-9._~+/-]{8,}=*)", token),
    ("login", r#"(?i)(?-u:\b)curl(?-u:\b).{0,256}?[ \t](?:-u|--user)[ \t=]*["']?[^\s:"']{1,64}:([^\s"']+)"#, any),
    ("login", r"(?i)(?-u:\b)login[ \t\r\n]+[^\s]{1,64}[ \t\r\n]+password[ \t\r\n]+([^\s]+)", any),
    ("aws", r"(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?-u:\b)", any),
    ("github", r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255}", any),
    ("gitlab", r"gl(?:pat|dt|rt|cbt)-[A-Za-z0-9_-]{20,}", any),
    (
        "slack",
        r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}",
        any,
    ),
    ("google", r"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}", any),
    ("stripe", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}=*", any),
    ("model_provider", r"(?-u:\b)sk-[A-Za-z0-9_-]{20,}|(?-u:\b)hf_[A-Za-z0-9]{30,}", any),
    ("package_registry", r"npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}", any),
    ("mail_provider", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", any),
    ("url_password", r"(?-u:\b)[A-Za-z0-9_.-]{1,64}:([^\s]{1,256}?)@(?:tcp|udp|unix)\(", any),
    ("url_password", r"(?i)jdbc:oracle:[a-z0-9]{1,8}:[^\s/]{1,64}/([^\s@]{1,256})@", any),
];

const PERSONAL: &[(&str, &str, fn(&str) -> bool)] = &[
    ("email", r"(?i)[a-z0-9._%+-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}", any),
    ("phone", r"\+[0-9]{1,3}(?:[ .()/-]{0,2}[0-9]){7,13}", any),
    ("us_ssn", r"(?-u:\b)[0-9]{3}-[0-9]{2}-[0-9]{4}(?-u:\b)", social_security),
];

fn compiled(table: &[(&str, &str, fn(&str) -> bool)]) -> Vec<Detector> {
    // Every pattern of the tables compiles; a test says so.
    table.iter().filter_map(|(name, pattern, check)| Detector::checked(name, pattern, *check).ok()).collect()
}

pub(super) fn secrets() -> &'static [Detector] {
    static ALL: LazyLock<Vec<Detector>> = LazyLock::new(|| {
        let mut all = compiled(SECRETS);
        all.push(Detector::new("url_password", super::uri::passwords));
        all
    });
    &ALL
}

pub(super) fn personal() -> &'static [Detector] {
    static ALL: LazyLock<Vec<Detector>> = LazyLock::new(|| {
        let mut all = compiled(PERSONAL);
        all.push(Detector::new("card", cards));
        all.push(Detector::new("iban", ibans));
        all
    });
    &ALL
}

/// The characters from `start` on that can be part of a grouped number, and where each ends: groups may be parted by one space or dash.
fn grouped(text: &str, start: usize, most: usize, part: fn(u8) -> bool) -> Vec<(u8, usize)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = start;
    while found.len() < most {
        let parted = usize::from(!found.is_empty() && bytes.get(at).is_some_and(|b| matches!(b, b' ' | b'-')));
        match bytes.get(at + parted) {
            Some(&b) if part(b) => {
                at += parted + 1;
                found.push((b, at));
            }
            _ => break,
        }
    }
    found
}

/// Whether a group of such characters can begin here.
fn begins(text: &str, at: usize, part: fn(u8) -> bool) -> bool {
    part(text.as_bytes()[at]) && !at.checked_sub(1).is_some_and(|before| part(text.as_bytes()[before]))
}

/// The longest beginning of `found` that holds, and is not cut out of a longer group.
fn longest(
    text: &str,
    start: usize,
    found: &[(u8, usize)],
    least: usize,
    part: fn(u8) -> bool,
    holds: fn(&[u8]) -> bool,
) -> Option<Range<usize>> {
    (least..=found.len()).rev().find_map(|len| {
        let end = found.get(len - 1)?.1;
        let whole = text.as_bytes().get(end).is_none_or(|after| !part(*after));
        let bytes: Vec<u8> = found[..len].iter().map(|(byte, _)| *byte).collect();
        (whole && holds(&bytes)).then_some(start..end)
    })
}

/// Card numbers: 13 to 19 digits that pass Luhn's check and begin as a card's do.
fn cards(text: &str) -> Vec<Range<usize>> {
    fn digit(b: u8) -> bool {
        b.is_ascii_digit()
    }
    fn luhn(digits: &[u8]) -> bool {
        let sum: u32 = digits
            .iter()
            .rev()
            .enumerate()
            .map(|(at, digit)| {
                let digit = u32::from(digit - b'0');
                if at % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
            })
            .sum();
        matches!(digits[0], b'2'..=b'6') && sum.is_multiple_of(10)
    }
    (0..text.len())
        .filter(|at| begins(text, *at, digit))
        .filter_map(|at| longest(text, at, &grouped(text, at, 19, digit), 13, digit, luhn))
        .collect()
}

/// International bank account numbers: two letters, two digits, 11 to 30 more of either, which pass the check of ISO 7064.
fn ibans(text: &str) -> Vec<Range<usize>> {
    fn part(b: u8) -> bool {
        b.is_ascii_alphanumeric()
    }
    fn remainder(number: &[u8]) -> bool {
        let head = number[..2].iter().all(u8::is_ascii_alphabetic) && number[2..4].iter().all(u8::is_ascii_digit);
        let rest = number[4..].iter().chain(&number[..4]).fold(0_u32, |rest, byte| match byte.to_ascii_uppercase() {
            digit @ b'0'..=b'9' => (rest * 10 + u32::from(digit - b'0')) % 97,
            letter => (rest * 100 + u32::from(letter - b'A') + 10) % 97,
        });
        head && rest == 1
    }
    let bytes = text.as_bytes();
    (0..text.len())
        .filter(|at| begins(text, *at, part) && bytes[*at].is_ascii_alphabetic())
        .filter(|at| bytes.get(at + 2).is_some_and(u8::is_ascii_digit) && bytes.get(at + 3).is_some_and(u8::is_ascii_digit))
        .filter_map(|at| longest(text, at, &grouped(text, at, 34, part), 15, part, remainder))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(secrets().len(), SECRETS.len() + 1);
        assert_eq!(personal().len(), PERSONAL.len() + 2);
    }

    #[test]
    fn a_card_is_found_among_other_digits_and_a_number_that_fails_the_check_is_not() {
        let found = |text: &'static str| cards(text).into_iter().map(|range| &text[range]).collect::<Vec<_>>();
        assert_eq!(found("order 12 4111 1111 1111 1111 of 3"), ["4111 1111 1111 1111"]);
        assert_eq!(found("5500-0000-0000-0004;378282246310005"), ["5500-0000-0000-0004", "378282246310005"]);
        assert!(found("4111 1111 1111 1112 and 94111111111111111 and 1234567890123").is_empty());
    }

    #[test]
    fn an_iban_is_found_before_other_words() {
        let found = |text: &'static str| ibans(text).into_iter().map(|range| &text[range]).collect::<Vec<_>>();
        assert_eq!(
            found("to DE89 3704 0044 0532 0130 00 AND GB82WEST12345698765432."),
            ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432"]
        );
        assert!(found("DE88 3704 0044 0532 0130 00").is_empty());
    }
}
