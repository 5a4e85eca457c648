//! How much came back, in bytes: exact, without writing it.

use serde_json::value::RawValue;

use crate::model::{Content, RawObject, ToolResponse};

pub(super) fn response_bytes(response: &ToolResponse) -> u64 {
    let bytes = match response {
        ToolResponse::Complete(result) => {
            let structured = result.structured_content().map_or(0, |json| json.get().len());
            result.content().iter().map(content_bytes).sum::<usize>() + structured
        }
        ToolResponse::InputRequired(asked) => object_bytes(&asked.requests) + asked.state.as_ref().map_or(0, |state| state.len()),
        ToolResponse::Task(task) => task.task_id.len(),
    };
    bytes as u64
}

fn content_bytes(content: &Content) -> usize {
    let some = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match content {
        Content::Audio(media) | Content::Image(media) => media.data.len(),
        Content::Other(fields) => object_bytes(fields),
        Content::Resource(resource) => resource.uri.len() + some(&resource.text) + some(&resource.blob),
        Content::ResourceLink(link) => link.uri.len() + link.name.len() + some(&link.title) + some(&link.description),
        Content::Text(text) => text.text.len(),
    }
}

fn object_bytes(fields: &RawObject) -> usize {
    fields.iter().map(|(key, value): (&str, &RawValue)| key.len() + value.get().len()).sum()
}
