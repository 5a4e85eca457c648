use jsonschema::{
    PatternOptions, ValidationError,
    error::{TypeKind, ValidationErrorKind},
};
use serde_json::Value;

use super::{Check, Validator, Violation};
use crate::error::BoxError;

/// JSON Schema, by the [`jsonschema`] crate (feature `jsonschema`). Draft 2020-12, unless a schema names another.
///
/// Nothing is fetched: a reference that leads out of the schema is an error when it is compiled. Patterns that need backtracking are given
/// up after a bounded number of steps, and then count as not matched.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonSchema {
    formats: bool,
}

impl JsonSchema {
    /// As the specification has it: `format` says something and checks nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { formats: false }
    }

    /// Checks `format` too, where it is one of the specification's.
    #[must_use]
    pub const fn formats(mut self) -> Self {
        self.formats = true;
        self
    }
}

impl Validator for JsonSchema {
    fn compile(&self, schema: &Value) -> Result<Box<dyn Check>, BoxError> {
        let patterns = PatternOptions::fancy_regex().backtrack_limit(100_000).size_limit(1 << 20);
        let validator =
            jsonschema::options().offline().with_pattern_options(patterns).should_validate_formats(self.formats).build(schema).map_err(
                |error| match error.kind() {
                    ValidationErrorKind::Referencing(error) => {
                        format!("a reference leads out of the schema, and none is followed: {error}").into()
                    }
                    _ => BoxError::from(format!("at {}: {error}", error.instance_path())),
                },
            )?;
        Ok(Box::new(Compiled { validator, schema: schema.clone() }))
    }
}

struct Compiled {
    validator: jsonschema::Validator,
    schema: Value,
}

impl Check for Compiled {
    fn violations(&self, value: &Value, most: usize) -> Vec<Violation> {
        self.validator.iter_errors(value).take(most).map(|error| self.violation(&error)).collect()
    }

    fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }
}

impl Compiled {
    fn violation(&self, error: &ValidationError<'_>) -> Violation {
        let rule = error.kind().keyword().to_owned();
        Violation::new(error.instance_path().as_str(), rule, self.expected(error))
    }

    /// From the schema alone: an error's own text repeats the value.
    fn expected(&self, error: &ValidationError<'_>) -> String {
        use ValidationErrorKind as Kind;

        match error.kind() {
            Kind::AdditionalItems { limit } => format!("must have at most {limit} items"),
            Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => self.allowed(error.schema_path().as_str()),
            Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => "must be one of the alternatives".to_owned(),
            Kind::OneOfMultipleValid { .. } => "must be only one of the alternatives".to_owned(),
            Kind::Constant { expected_value } => format!("must be {expected_value}"),
            Kind::Contains => "must contain an item of the required kind".to_owned(),
            Kind::Enum { options } => format!("must be one of {options}"),
            Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
            Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
            Kind::FalseSchema => "must not be there".to_owned(),
            Kind::Format { format } => format!("must have the format {format}"),
            Kind::MaxItems { limit } => format!("must have at most {limit} items"),
            Kind::Maximum { limit } => format!("must be at most {limit}"),
            Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
            Kind::MaxProperties { limit } => format!("must have at most {limit} properties"),
            Kind::MinItems { limit } => format!("must have at least {limit} items"),
            Kind::Minimum { limit } => format!("must be at least {limit}"),
            Kind::MinLength { limit } => format!("must have at least {limit} characters"),
            Kind::MinProperties { limit } => format!("must have at least {limit} properties"),
            Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
            Kind::Pattern { pattern } => format!("must match {pattern}"),
            Kind::PropertyNames { .. } => "must have properties of allowed names only".to_owned(),
            Kind::Required { property } => format!("must have the property {property}"),
            Kind::Type { kind: TypeKind::Single(expected) } => format!("must be of the type {expected}"),
            Kind::Type { kind: TypeKind::Multiple(expected) } => {
                let names: Vec<_> = expected.iter().map(|expected| expected.to_string()).collect();
                format!("must be of the type {}", names.join(" or "))
            }
            Kind::UniqueItems => "must have no item twice".to_owned(),
            kind => format!("must keep the rule {}", kind.keyword()),
        }
    }

    /// Which properties there may be: those are the schema's, where what is there is the caller's.
    fn allowed(&self, schema_path: &str) -> String {
        let object = schema_path.rfind('/').and_then(|end| self.schema.pointer(&schema_path[..end]));
        match object.and_then(|object| object.get("properties")?.as_object()) {
            Some(properties) if !properties.is_empty() => {
                let mut names: Vec<_> = properties.keys().map(String::as_str).collect();
                // Whether a map keeps the order of its keys depends on what else is built into the program.
                names.sort_unstable();
                format!("must have no properties but {}", names.join(", "))
            }
            _ => "has properties that it must not have".to_owned(),
        }
    }
}
