//! Passwords and tokens before the host of a URI.

use std::ops::Range;

/// What stands before the `@`: after a colon, or, where a web address has no colon there, all of it. A password may hold an `@`, and also
/// what should have been escaped.
pub(super) fn passwords(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>');
    let (mut found, mut at) = (Vec::new(), 0);
    // Where the word ends that was looked at last, and where its last `@` is.
    let (mut word, mut last) = (0, None);
    while let Some(slashes) = text[at..].find("//") {
        let slashes = at + slashes;
        let from = slashes + 2;
        if from > word {
            word = bytes[from..].iter().position(ends).map_or(bytes.len(), |len| from + len);
            last = bytes[from..word].iter().rposition(|byte| *byte == b'@').map(|len| from + len);
        }
        let host = bytes[from..word.max(from)].iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).map_or(word, |len| from + len);
        at = host.max(from);
        let Some(last) = last.filter(|last| *last >= from) else { continue };
        let colon = bytes[from..at].iter().position(|byte| *byte == b':').map(|len| from + len);
        let within = bytes[from..at].iter().rposition(|byte| *byte == b'@').map(|len| from + len);
        let range = match (colon, within) {
            (Some(colon), Some(within)) if colon < within => colon + 1..within,
            (_, Some(within)) if web(&bytes[..slashes]) => from..within,
            // What looks like a port and is none.
            (Some(colon), None) if !bytes[colon + 1..at].iter().all(u8::is_ascii_digit) => colon + 1..last,
            _ => continue,
        };
        at = at.max(range.end);
        if !range.is_empty() {
            found.push(range);
        }
    }
    found
}

fn web(before: &[u8]) -> bool {
    let scheme = |name: &[u8]| before.len() >= name.len() && before[before.len() - name.len()..].eq_ignore_ascii_case(name);
    scheme(b"http:") || scheme(b"https:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_host_is_found_and_what_does_not_is_not() {
        let found = |text: &'static str| passwords(text).into_iter().map(|range| &text[range]).collect::<Vec<_>>();
        assert_eq!(found("see postgres://ada:p@ss@db:5432/x?y=1, redis://:pw@h"), ["p@ss", "pw"]);
        assert_eq!(found("https://tok3n@example.com/x and HTTP://a:b@c"), ["tok3n", "b"]);
        assert_eq!(found("'amqp://ada:p/w?d@h/v' //ada:x@h"), ["p/w?d", "x"]);
        for none in ["https://example.com/a@b?x=1#y", "http://h:8080/@ada", "ssh://git@host/x", "// a: b@c", "ftp://h", "//", "///@"] {
            assert!(found(none).is_empty(), "{none}");
        }
    }
}
