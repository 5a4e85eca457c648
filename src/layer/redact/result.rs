//! Every place in which a response can carry text.

use base64::Engine as _;
use serde_json::value::RawValue;

use super::{
    Redactor, Typed,
    encoded::{self, STANDARD},
    marks::marker,
};
use crate::model::{BlockExtra, Content, ContentAnnotations, RawObject, Resource, ToolResponse, ToolResult};

/// One response that is being redacted.
pub(super) struct Hiding<'a> {
    pub(super) redactor: &'a Redactor,
    pub(super) typed: Typed,
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
            && let Some(message) = self.redactor.changed(refusal.message(), self.typed)
        {
            refusal.set_message(message);
        }
        if let Some(meta) = self.redactor.object(result.meta(), self.typed) {
            *result.meta_mut() = meta;
        }
        if let Some(extra) = result.extra_mut() {
            self.object(extra);
        }
        let Some(structured) = result.structured_content() else { return false };
        let Some(changed) = self.redactor.json(structured.get(), self.typed) else { return false };
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
                for text in [&mut link.uri, &mut link.name] {
                    self.text(text);
                }
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
        self.text(&mut resource.uri);
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
        if let Some(annotations) = &mut extra.annotations {
            self.annotations(annotations);
        }
        self.object(&mut extra.meta);
        self.object(&mut extra.unknown);
    }

    fn text(&self, text: &mut String) {
        if let Some(changed) = self.redactor.changed(text, self.typed) {
            *text = changed;
        }
    }

    fn object(&self, object: &mut RawObject) {
        if let Some(changed) = self.redactor.object(object, self.typed) {
            *object = changed;
        }
    }

    /// Annotations, those that this crate does not know included. Those that cannot be read any more are gone.
    fn annotations(&self, annotations: &mut ContentAnnotations) {
        let changed = serde_json::to_string(annotations).ok().and_then(|json| self.redactor.json(&json, self.typed));
        if let Some(changed) = changed {
            *annotations = serde_json::from_str(&changed).unwrap_or_default();
        }
    }

    /// Base64: text is looked at as text, and anything else is left as it is, or hidden whole if that is asked for or if it holds a text
    /// that is to be hidden. What is no base64 as it stands there is looked at as the text that it is, too.
    fn blob(&self, blob: &mut String) {
        const SHORT: usize = 64 * 1024;
        if blob.is_empty() {
            return;
        }
        let bytes = match String::from_utf8(encoded::bytes(blob)) {
            Ok(text) => {
                if let Some(changed) = self.redactor.changed(&text, self.typed) {
                    *blob = STANDARD.encode(changed);
                    return;
                }
                text.into_bytes()
            }
            Err(_) if self.binary && encoded::is(blob) => return *blob = STANDARD.encode(marker("binary")),
            Err(error) => error.into_bytes(),
        };
        // A text without zeros was looked at as it is.
        let other = bytes.contains(&0) || std::str::from_utf8(&bytes).is_err();
        let spoiled = other && self.redactor.changed(&encoded::readable(&bytes), self.typed).is_some();
        let is = encoded::is(blob);
        // What is short may be a secret as it stands there, and base64 by accident.
        if spoiled || is && blob.len() <= SHORT && self.redactor.finds_plainly(blob) {
            *blob = STANDARD.encode(marker("binary"));
        } else if !is {
            self.text(blob);
        }
    }
}
