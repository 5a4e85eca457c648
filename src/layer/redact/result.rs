//! Every place in which a response can carry text.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::value::RawValue;

use super::{
    Redactor,
    redactor::{Mode, marker},
};
use crate::model::{BlockExtra, Content, RawObject, Resource, ToolResponse, ToolResult};

const CONFIG: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, CONFIG);

/// One response that is being redacted.
pub(super) struct Hiding<'a> {
    pub(super) redactor: &'a Redactor,
    pub(super) mode: Mode,
    /// Whether content that is no text is hidden whole.
    pub(super) binary: bool,
}

impl Hiding<'_> {
    /// Redacts a response. Says whether its structured content changed.
    pub(super) fn response(&self, response: &mut ToolResponse) -> bool {
        response.remarks_mut().iter_mut().for_each(|remark| self.text(&mut remark.text));
        match response {
            ToolResponse::Complete(result) => return self.result(result),
            // What a person is asked, and the sealed state, are no results: changing them would change the question.
            ToolResponse::InputRequired(asked) => {
                self.object(&mut asked.meta);
                self.object(&mut asked.extra);
            }
            ToolResponse::Task(task) => {
                self.object(&mut task.meta);
                self.object(&mut task.extra);
            }
        }
        false
    }

    fn result(&self, result: &mut ToolResult) -> bool {
        result.content_mut().iter_mut().for_each(|block| self.content(block));
        if let Some(refusal) = result.refusal_mut()
            && let Some(message) = self.redactor.within(refusal.message(), self.mode)
        {
            refusal.set_message(message);
        }
        if let Some(meta) = self.redactor.object(result.meta(), self.mode) {
            *result.meta_mut() = meta;
        }
        if let Some(extra) = result.extra_mut() {
            self.object(extra);
        }
        let Some(structured) = result.structured_content() else { return false };
        let Some(changed) = super::json::rewrite(structured.get(), self.redactor, self.mode) else { return false };
        result.set_structured(RawValue::from_string(changed).ok());
        true
    }

    fn content(&self, block: &mut Content) {
        match block {
            Content::Text(text) => {
                self.text(&mut text.text);
                if let Some(extra) = &mut text.extra {
                    self.extra(extra);
                }
            }
            Content::Audio(media) | Content::Image(media) => {
                self.text(&mut media.mime_type);
                self.blob(&mut media.data);
                self.extra(&mut media.extra);
            }
            Content::ResourceLink(link) => {
                self.uri(&mut link.uri);
                self.text(&mut link.name);
                for text in [&mut link.title, &mut link.description, &mut link.mime_type].into_iter().flatten() {
                    self.text(text);
                }
                self.extra(&mut link.extra);
            }
            Content::Resource(resource) => self.resource(resource),
            Content::Other(fields) => self.object(fields),
        }
    }

    fn resource(&self, resource: &mut Resource) {
        self.uri(&mut resource.uri);
        for text in [&mut resource.mime_type, &mut resource.text].into_iter().flatten() {
            self.text(text);
        }
        if let Some(blob) = &mut resource.blob {
            self.blob(blob);
        }
        self.object(&mut resource.inner);
        self.extra(&mut resource.extra);
    }

    fn extra(&self, extra: &mut BlockExtra) {
        if let Some(date) = extra.annotations.as_mut().and_then(|annotations| annotations.last_modified.as_mut()) {
            self.text(date);
        }
        self.object(&mut extra.meta);
        self.object(&mut extra.unknown);
    }

    fn text(&self, text: &mut String) {
        if let Some(changed) = self.redactor.within(text, self.mode) {
            *text = changed;
        }
    }

    fn object(&self, object: &mut RawObject) {
        if let Some(changed) = self.redactor.object(object, self.mode) {
            *object = changed;
        }
    }

    /// A URI, also where what is to be hidden is written with escapes: it is then hidden whole.
    fn uri(&self, uri: &mut String) {
        self.text(uri);
        if uri.contains('%') {
            let plain = unescaped(uri);
            if plain != *uri && self.redactor.text_changed(&plain).is_some() {
                *uri = marker("uri");
            }
        }
    }

    /// Base64: text is looked at as text, and anything else is left as it is or hidden whole.
    fn blob(&self, blob: &mut String) {
        // Long base64 often comes in lines.
        let line: Vec<u8> = blob.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        let bytes = STANDARD.decode(&line).or_else(|_| URL_SAFE.decode(&line));
        match bytes.map(String::from_utf8) {
            Ok(Ok(text)) => {
                if let Some(changed) = self.redactor.within(&text, self.mode) {
                    *blob = STANDARD.encode(changed);
                }
            }
            Ok(Err(_)) if self.binary => *blob = STANDARD.encode(marker("binary")),
            Ok(Err(_)) => {}
            // No base64 at all: whoever reads it reads it as it is.
            Err(_) => self.text(blob),
        }
    }
}

/// A URI with its escapes resolved.
fn unescaped(uri: &str) -> String {
    let bytes = uri.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (byte, hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.extend(u8::try_from(high * 16 + low));
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
