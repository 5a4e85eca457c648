//! `Debug` of what tools answer with. Texts and bytes may be secret: a result comes here before any redaction. So it shows how long they are.

use std::fmt::{Debug, Formatter, Result};

use super::content::{Media, Resource, ResourceLink, Text};

/// How long a text is, in its place.
pub(super) struct Hidden<'a>(pub(super) &'a str);

impl Debug for Hidden<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, ".. ({} bytes)", self.0.len())
    }
}

/// An address without what is asked there, which is where signatures and tokens stand.
struct Address<'a>(&'a str);

impl Debug for Address<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let end = self.0.find(['?', '#']).unwrap_or(self.0.len());
        let begin = self.0[..end].rfind('@').map_or(0, |at| at + 1);
        write!(f, "{:?}", &self.0[begin..end])
    }
}

impl Debug for Text {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Text").field("text", &Hidden(&self.text)).field("extra", &self.extra).finish()
    }
}

impl Debug for Media {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { data, mime_type, extra } = self;
        f.debug_struct("Media").field("data", &Hidden(data)).field("mime_type", mime_type).field("extra", extra).finish()
    }
}

impl Debug for ResourceLink {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("ResourceLink")
            .field("uri", &Address(&self.uri))
            .field("name", &self.name)
            .field("mime_type", &self.mime_type)
            .field("size", &self.size)
            .field("extra", &self.extra)
            .finish_non_exhaustive()
    }
}

impl Debug for Resource {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Resource")
            .field("uri", &Address(&self.uri))
            .field("mime_type", &self.mime_type)
            .field("text", &self.text.as_deref().map(Hidden))
            .field("blob", &self.blob.as_deref().map(Hidden))
            .field("inner", &self.inner)
            .field("extra", &self.extra)
            .finish()
    }
}
