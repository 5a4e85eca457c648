//! Texts in base64, however it is written: with either alphabet, with or without padding, in lines, with bytes in it that are no part of it.

use std::ops::Range;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

const CONFIG: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true);
pub(super) const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);

/// The shortest run that is looked at, in bytes: it holds six.
const SHORTEST: usize = 8;

/// Lines at least so long may be parts of one run.
const FOLDED: usize = 32;

const fn sign(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// What may be base64 in a text: runs of its signs, the lines of a folded one together, and the parts of one that its last four signs part.
pub(super) fn runs(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let len = bytes[at..].iter().take_while(|byte| sign(**byte)).count();
        if len < SHORTEST {
            at += len + 1;
            continue;
        }
        let (start, mut end) = (at, at + len);
        let mut line = len;
        while line >= FOLDED {
            let fold = bytes[end..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | b' ' | b'\t')).take(64).count();
            let more = bytes[end + fold..].iter().take_while(|byte| sign(**byte)).count();
            if more == 0 || !bytes[end..end + fold].contains(&b'\n') {
                break;
            }
            line = more;
            end += fold + more;
        }
        end += bytes[end..].iter().take(2).take_while(|byte| **byte == b'=').count();
        found.push(start..end);
        if bytes[start..end].iter().any(|byte| matches!(byte, b'+' | b'/' | b'-' | b'_')) {
            parts(bytes, start..end, &mut found);
        }
        at = end;
    }
    found
}

fn parts(bytes: &[u8], run: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut at = run.start;
    while at < run.end {
        let len = bytes[at..run.end].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let end = at + len;
        if len >= SHORTEST && len < run.len() {
            found.push(at..end);
        }
        at = end + 1;
    }
}

/// What base64 holds, with all that is no part of it left out.
pub(super) fn bytes(encoded: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(encoded.len() / 4 * 3 + 3);
    // Padding ends a piece, and another may follow.
    for piece in encoded.split('=') {
        let mut signs: Vec<u8> = piece
            .bytes()
            .filter(|byte| sign(*byte))
            .map(|byte| match byte {
                b'-' => b'+',
                b'_' => b'/',
                byte => byte,
            })
            .collect();
        if signs.len() % 4 == 1 {
            signs.pop();
        }
        out.extend(STANDARD.decode(signs).unwrap_or_default());
    }
    out
}

/// Whether this is base64 and nothing but that, line breaks aside.
pub(super) fn is(encoded: &str) -> bool {
    let body = encoded.trim().trim_end_matches('=');
    let lines = body.lines().map(|line| line.trim_start_matches([' ', '\t']));
    lines.clone().all(|line| line.bytes().all(sign)) && lines.map(str::len).sum::<usize>() % 4 != 1
}

/// What can be read in bytes that are no text: stretches of four bytes and more that could be one, each in a line of its own. Zeros count
/// for nothing: a text of two bytes for each character has one in each that is ASCII.
pub(super) fn readable(bytes: &[u8]) -> String {
    const LEAST: usize = 4;
    let bytes: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).collect();
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        let stretches = chunk.valid().split(|c: char| c.is_control() && !c.is_whitespace());
        for stretch in stretches.filter(|stretch| stretch.len() >= LEAST) {
            out.push_str(stretch);
            out.push('\n');
        }
    }
    out
}

/// What can be read in a run, if there is something.
pub(super) fn text(run: &str) -> Option<String> {
    Some(readable(&bytes(run))).filter(|text| !text.is_empty())
}
