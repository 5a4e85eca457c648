use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
    ser::Error as _,
};
use serde_json::{Map, Value, value::RawValue};

use super::{
    canonical::canonical,
    feed::{feed, feed_value},
    strict,
};

/// The arguments of a call, as the JSON they came in.
///
/// The text is what counts: a typed tool deserialises straight from it, so numbers stay exact. Layers that must look inside ask for
/// [`value`](Self::value) or [`object`](Self::object), a view that is parsed from the same text once and on demand. The view is
/// strict: a key that stands twice, or an integer beyond 64 bits, is an error rather than a guess, so that what a policy judged is what
/// the tool gets. Nesting is bounded at 128.
///
/// A program that has a [`Value`] already hands it over and the tool reads it by reference; no text is made unless somebody asks.
///
/// Cloning shares the text and the view. `Debug` shows the size only: arguments may hold secrets.
///
/// ```
/// use serde_json::json;
/// use toolstack::model::Arguments;
///
/// let arguments = Arguments::from_text(r#"{"id":9007199254740993}"#);
/// assert_eq!(arguments.object()?["id"], 9_007_199_254_740_993_u64);
/// assert_eq!(arguments.as_json()?, r#"{"id":9007199254740993}"#);
///
/// assert!(Arguments::from_text(r#"{"path":"a","path":"b"}"#).object().is_err());
/// assert!(Arguments::from_text("[1,2]").object().is_err());
/// assert_eq!(Arguments::from(json!({})), Arguments::empty());
/// # Ok::<(), toolstack::model::ArgumentsError>(())
/// ```
#[derive(Clone, Default)]
pub struct Arguments(Repr);

/// Laid out so that a call is at most 128 bytes, which is what compilers move without calling for help.
#[derive(Clone)]
enum Repr {
    Text { text: Arc<str>, view: OnceLock<Arc<Value>> },
    Value(Option<Arc<Given>>),
}

/// A value that was handed over, and its text once somebody asks for it.
struct Given {
    value: Value,
    text: OnceLock<Box<str>>,
}

impl Default for Repr {
    fn default() -> Self {
        Self::Value(None)
    }
}

/// Why arguments cannot be read.
///
/// The text names where and what, for whoever wrote the arguments. It may quote them.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentsError {
    /// The text is not JSON, or not JSON that can be read without losing anything.
    #[error("the arguments cannot be read: {0}")]
    Json(Arc<serde_json::Error>),
    /// Arguments are an object; this is something else.
    #[error("the arguments must be a JSON object, not {found}")]
    #[non_exhaustive]
    NotAnObject {
        /// What they are instead.
        found: &'static str,
    },
}

impl ArgumentsError {
    #[cold]
    pub(crate) fn json(error: serde_json::Error) -> Self {
        Self::Json(Arc::new(error))
    }
}

impl Arguments {
    /// No arguments: `{}`.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Repr::Value(None))
    }

    /// Takes JSON text as it is. Nothing is checked here: what is wrong with it is told to whoever reads it, so that a call with
    /// broken arguments is still a call, with an id and an answer.
    #[must_use]
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        Self(Repr::Text { text: text.into(), view: OnceLock::new() })
    }

    /// Writes `value` as JSON.
    ///
    /// # Errors
    ///
    /// If `value` refuses to be serialised.
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, ArgumentsError> {
        serde_json::to_string(value).map(Self::from_text).map_err(ArgumentsError::json)
    }

    /// The JSON text: as it came, or written from the value that was handed over. It may still be broken where it came as text.
    ///
    /// # Errors
    ///
    /// Only if a handed-over value cannot be written, which `serde_json` does not do for a [`Value`].
    pub fn as_json(&self) -> Result<&str, ArgumentsError> {
        match &self.0 {
            Repr::Value(None) => Ok("{}"),
            Repr::Text { text, .. } => Ok(text),
            Repr::Value(Some(given)) => {
                if let Some(text) = given.text.get() {
                    return Ok(text);
                }
                let written = serde_json::to_string(&given.value).map_err(ArgumentsError::json)?;
                Ok(given.text.get_or_init(|| written.into()))
            }
        }
    }

    /// The strict view of the arguments, parsed at the first use.
    ///
    /// # Errors
    ///
    /// If the text is not JSON, nests deeper than 128, has a key twice in one object or an integer that 64 bits do not hold.
    pub fn value(&self) -> Result<&Value, ArgumentsError> {
        match &self.0 {
            Repr::Value(None) => Ok(empty_object()),
            Repr::Value(Some(given)) => Ok(&given.value),
            Repr::Text { text, view } => {
                if let Some(value) = view.get() {
                    return Ok(value);
                }
                let value = strict::parse(text).map_err(ArgumentsError::json)?;
                Ok(view.get_or_init(|| Arc::new(value)))
            }
        }
    }

    /// The strict view as the object that arguments have to be.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value), and if the arguments are not an object.
    pub fn object(&self) -> Result<&Map<String, Value>, ArgumentsError> {
        match self.value()? {
            Value::Object(object) => Ok(object),
            other => Err(ArgumentsError::NotAnObject { found: kind(other) }),
        }
    }

    /// Reads the arguments as a `T`, straight from the text or by reference from a handed-over value.
    ///
    /// They must be an object. Serde would also fill a struct from an array, by position; no policy that looks for keys would see that.
    ///
    /// # Errors
    ///
    /// If the arguments are not JSON, not an object or not a `T`.
    #[inline(always)]
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, ArgumentsError> {
        match &self.0 {
            Repr::Value(None) => serde_json::from_str("{}").map_err(ArgumentsError::json),
            Repr::Text { text, .. } => {
                if text.as_bytes().first() != Some(&b'{') && !text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{') {
                    self.object()?;
                }
                serde_json::from_str(text).map_err(ArgumentsError::json)
            }
            Repr::Value(Some(given)) => {
                self.object()?;
                T::deserialize(&given.value).map_err(ArgumentsError::json)
            }
        }
    }

    /// Whether both are the same JSON, number for number as it is written. Clones are compared by pointer.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Value(None), Repr::Value(None)) => return true,
            (Repr::Text { text: a, .. }, Repr::Text { text: b, .. }) if Arc::ptr_eq(a, b) || a == b => return true,
            (Repr::Value(Some(a)), Repr::Value(Some(b))) if Arc::ptr_eq(a, b) => return true,
            _ => {}
        }
        matches!((self.canonical(), other.canonical()), (Ok(a), Ok(b)) if a == b)
    }

    /// The one text for all that is this JSON.
    pub(crate) fn canonical(&self) -> Result<String, ArgumentsError> {
        canonical(self.as_json()?).map_err(ArgumentsError::json)
    }

    /// Writes the one text for all that is this JSON, without holding it.
    pub(crate) fn feed(&self, out: &mut impl std::io::Write) -> serde_json::Result<()> {
        match &self.0 {
            Repr::Value(None) => feed("{}", out),
            Repr::Value(Some(given)) => feed_value(&given.value, out),
            Repr::Text { text, .. } => feed(text, out),
        }
    }

    /// How long the JSON text is, in bytes; `None` for a handed-over value that was not written yet.
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        match &self.0 {
            Repr::Value(None) => Some(2),
            Repr::Text { text, .. } => Some(text.len()),
            Repr::Value(Some(given)) => given.text.get().map(|text| text.len()),
        }
    }
}

fn empty_object() -> &'static Value {
    static EMPTY: OnceLock<Value> = OnceLock::new();
    EMPTY.get_or_init(|| Value::Object(Map::new()))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl From<Value> for Arguments {
    fn from(value: Value) -> Self {
        Self(Repr::Value(Some(Arc::new(Given { value, text: OnceLock::new() }))))
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(object: Map<String, Value>) -> Self {
        Value::Object(object).into()
    }
}

impl From<Box<RawValue>> for Arguments {
    fn from(json: Box<RawValue>) -> Self {
        Self::from_text(Box::<str>::from(json))
    }
}

impl From<()> for Arguments {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

impl PartialEq for Arguments {
    /// Whether both are the same JSON, whatever the white space and the order of keys. Broken arguments equal nothing but the same text.
    fn eq(&self, other: &Self) -> bool {
        match (self.value(), other.value()) {
            (Ok(a), Ok(b)) => a == b,
            _ => matches!((self.as_json(), other.as_json()), (Ok(a), Ok(b)) if a == b),
        }
    }
}

impl Serialize for Arguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Value(Some(given)) => given.value.serialize(serializer),
            Repr::Value(None) => Map::new().serialize(serializer),
            Repr::Text { text, .. } => {
                let checked: &RawValue = serde_json::from_str(text).map_err(S::Error::custom)?;
                checked.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from).map_err(D::Error::custom)
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size() {
            Some(bytes) => write!(f, "Arguments({bytes} bytes)"),
            None => f.write_str("Arguments(value)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Path {
        path: String,
    }

    #[test]
    fn an_array_never_fills_a_struct_by_position() {
        for arguments in [Arguments::from_text(r#" ["/etc/passwd"]"#), json!(["/etc/passwd"]).into()] {
            let error = arguments.deserialize::<Path>().unwrap_err();
            assert!(matches!(error, ArgumentsError::NotAnObject { found: "an array" }), "{error}");
        }
    }

    #[test]
    fn a_string_of_json_is_not_an_object() {
        let error = Arguments::from_text(r#""{\"path\":\"a\"}""#).deserialize::<Path>().unwrap_err();
        assert_eq!(error.to_string(), "the arguments must be a JSON object, not a string");
    }

    #[test]
    fn both_views_come_from_the_same_text() {
        let text = r#" { "path" : "a\u0062" } "#;
        let arguments = Arguments::from_text(text);
        assert_eq!(arguments.deserialize::<Path>().unwrap().path, "ab");
        assert_eq!(arguments.object().unwrap()["path"], "ab");
        assert_eq!(arguments.as_json().unwrap(), text);
        assert_eq!(arguments.clone().as_json().unwrap().as_ptr(), arguments.as_json().unwrap().as_ptr());
    }

    #[test]
    fn debug_shows_no_argument() {
        let secret = Arguments::from_text(r#"{"password":"hunter2"}"#);
        assert_eq!(format!("{secret:?}"), "Arguments(22 bytes)");
    }

    #[test]
    fn broken_text_is_not_written_into_other_json() {
        assert!(serde_json::to_string(&Arguments::from_text(r#"{"a":1},"b":2"#)).is_err());
        assert_eq!(serde_json::to_string(&Arguments::from_text(r#"{"a":1e400}"#)).unwrap(), r#"{"a":1e400}"#);
    }
}
