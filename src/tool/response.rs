use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use super::IntoToolError;
use crate::{
    error::Refusal,
    model::{Content, ToolResponse, ToolResult},
};

/// What a tool may answer with.
///
/// Texts, numbers, booleans and `()` become text; [`Json`] a structured value with a schema; [`Content`] blocks, a [`ToolResult`] and a
/// [`ToolResponse`] stay what they are; a [`Result`] is either of its sides.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that a tool may answer with",
    note = "answer with a text, a number, `Json<T>` for a structured value, `Content`, `ToolResult`, or a `Result` of one of these and `ToolError`"
)]
pub trait IntoToolResponse {
    /// The response.
    fn into_tool_response(self) -> ToolResponse;

    /// The schema of the structured value, where there is one.
    fn output_schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        let _ = generator;
        None
    }
}

/// A structured value: the tool's spec gains its schema, the result the value itself and the same value as text.
///
/// JSON has no NaN and no infinity; serde writes them as `null`.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Serialize;
/// use toolstack::tool::{Json, sync_tool_fn};
///
/// #[derive(Serialize, JsonSchema)]
/// struct Sum { sum: i64 }
///
/// let tool = sync_tool_fn("three", || Json(Sum { sum: 3 }));
/// assert!(tool.spec().output_schema().is_some());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a wrapper to take apart and put together")]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> IntoToolResponse for Json<T> {
    fn into_tool_response(self) -> ToolResponse {
        match ToolResult::structured(&self.0) {
            Ok(result) => result.into(),
            Err(error) => Refusal::internal(error).with_by("tool").into(),
        }
    }

    fn output_schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(generator.root_schema_for::<T>())
    }
}

impl<T: IntoToolResponse, E: IntoToolError> IntoToolResponse for Result<T, E> {
    fn into_tool_response(self) -> ToolResponse {
        match self {
            Ok(value) => value.into_tool_response(),
            Err(error) => error.into_tool_error(),
        }
    }

    fn output_schema(generator: &mut SchemaGenerator) -> Option<Schema> {
        T::output_schema(generator)
    }
}

impl IntoToolResponse for ToolResponse {
    fn into_tool_response(self) -> ToolResponse {
        self
    }
}

impl IntoToolResponse for Vec<Content> {
    fn into_tool_response(self) -> ToolResponse {
        let mut result = ToolResult::new();
        result.set_content(self);
        result.into()
    }
}

impl IntoToolResponse for () {
    fn into_tool_response(self) -> ToolResponse {
        ToolResult::new().into()
    }
}

macro_rules! responds {
    ($($type:ty: $value:ident => $response:expr),* $(,)?) => {$(
        impl IntoToolResponse for $type {
            #[inline]
            fn into_tool_response(self) -> ToolResponse {
                let $value = self;
                $response
            }
        }
    )*};
}

responds! {
    String: text => ToolResponse::text(text),
    &'static str: text => ToolResponse::text(text),
    std::borrow::Cow<'static, str>: text => ToolResponse::text(text),
    bool: value => ToolResponse::text(if value { "true" } else { "false" }),
    f32: value => ToolResponse::text(value.to_string()),
    f64: value => ToolResponse::text(value.to_string()),
    Content: block => ToolResult::new().with(block).into(),
    ToolResult: result => result.into(),
    Refusal: refusal => refusal.into(),
}

macro_rules! integers {
    ($($type:ty)*) => {responds! { $($type: value => ToolResponse::text(itoa::Buffer::new().format(value)),)* }};
}

integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
