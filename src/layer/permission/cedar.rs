use std::{
    collections::{HashMap, HashSet},
    fmt,
    str::FromStr,
};

use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityId, EntityTypeName, EntityUid, PolicySet, Request, RestrictedExpression, Schema,
    ValidationMode, Validator,
};
use futures_util::future::{BoxFuture, ready};
use serde_json::Value;

use super::{Effect, Opinion, PolicyEngine};
use crate::{
    error::BoxError,
    model::{Principal, ToolCall},
    tool::ToolEntry,
};

/// Policies in [Cedar](https://docs.cedarpolicy.com), as a [`PolicyEngine`].
///
/// A call is the request `User::"…"`, `Action::"call"`, `Tool::"name"`. A user with an issuer is `User::"issuer#subject"`, such as
/// `User::"https://id.example#ada"`, since two issuers may have a subject of the same name; one without is `User::"subject"`, and nobody
/// is `User::""`. Entities have to name users in the same way. [`users_by_subject`](Self::users_by_subject) leaves the issuer out. The
/// user has the attributes `subject`, `scopes` (a set) and, where they are known, `issuer` and `acr`. The tool has `source` (a text), `tags` (a set), and `readOnly`, `destructive`,
/// `idempotent` and `openWorld` as far as its source is [believed](crate::tool::ToolEntry::believed). The context has `arguments`: texts,
/// truths, sets, records, and numbers that are 64-bit integers, as they are; any other number is its JSON text, and a `null` is not there.
///
/// What Cedar denies is denied, also where no policy permits it. A permission by a policy with the annotation `@ask("why")` is one that a
/// person has to give. A forbidding policy may have `@reason("why")`, for the model to read.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use serde_json::json;
/// use toolstack::{
///     Router, StackExt,
///     layer::permission::{CedarEngine, Effect, PermissionLayer, Rules},
///     tool::sync_tool_fn,
/// };
/// use tower::Layer;
///
/// let engine = CedarEngine::new(r#"
///     permit (principal, action == Action::"call", resource);
///     @reason("Resets are for admins.")
///     forbid (principal, action, resource == Tool::"reset") unless { principal.scopes.contains("admin") };
/// "#)?;
/// let permission = PermissionLayer::new(Rules::empty(), Effect::Allow).engine(engine);
/// let stack = permission.layer(Router::new().tool(sync_tool_fn("ping", || "pong")).tool(sync_tool_fn("reset", || "done")));
///
/// assert!(stack.call_tool("ping", json!({})).await.is_completed());
/// assert!(stack.call_tool("reset", json!({})).await.refusal().is_some());
/// # Ok(()) }
/// ```
///
/// # Failing
///
/// Cedar leaves out a policy that cannot be evaluated, a forbidding one too. Here such a call is refused, as one that could not be judged.
/// So is one by a principal whose user could be taken for another's: with a `#` in the issuer, or in the subject where there is no issuer.
///
/// # Cost
///
/// Each call is translated and judged; a map of the entities that were given is cloned for it.
#[derive(Clone)]
pub struct CedarEngine {
    policies: PolicySet,
    entities: Entities,
    schema: Option<Schema>,
    names: Names,
}

/// What the types and the action of a request are called.
#[derive(Clone)]
struct Names {
    user: EntityTypeName,
    tool: EntityTypeName,
    action: EntityUid,
    /// Whether users are named by their subject alone.
    by_subject: bool,
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
#[error("the Cedar {part} cannot be used: {source}")]
#[non_exhaustive]
pub struct CedarError {
    /// What is wrong: `policies`, `entities`, `schema`, or `name`.
    pub part: &'static str,
    source: BoxError,
}

fn error(part: &'static str) -> impl Fn(BoxError) -> CedarError {
    move |source| CedarError { part, source }
}

impl CedarEngine {
    /// How deep arguments may be nested. Deeper ones are not judged, and so refused.
    pub const MAX_DEPTH: usize = 64;

    /// Policies in Cedar's own language.
    ///
    /// # Errors
    ///
    /// If they cannot be parsed.
    pub fn new(policies: &str) -> Result<Self, CedarError> {
        let name = |name: &str| EntityTypeName::from_str(name).map_err(|source| error("name")(source.into()));
        Ok(Self {
            policies: PolicySet::from_str(policies).map_err(|source| error("policies")(source.into()))?,
            entities: Entities::empty(),
            schema: None,
            names: Names {
                user: name("User")?,
                tool: name("Tool")?,
                action: EntityUid::from_type_name_and_id(name("Action")?, EntityId::new("call")),
                by_subject: false,
            },
        })
    }

    /// Checks the policies against a schema in Cedar's own language, and every request too. Give it before the entities.
    ///
    /// # Errors
    ///
    /// If it cannot be parsed, or the policies do not fit it.
    pub fn schema(mut self, schema: &str) -> Result<Self, CedarError> {
        let (schema, _) = Schema::from_cedarschema_str(schema).map_err(|source| error("schema")(source.into()))?;
        let checked = Validator::new(schema.clone()).validate(&self.policies, ValidationMode::Strict);
        if let Some(fault) = checked.validation_errors().next() {
            return Err(error("policies")(fault.to_string().into()));
        }
        self.schema = Some(schema);
        Ok(self)
    }

    /// Entities that policies refer to, such as groups of users or tools, in Cedar's JSON form. A user or a tool among them is in the groups
    /// that it is given; its attributes are always those of the request.
    ///
    /// # Errors
    ///
    /// If they cannot be parsed, or do not fit the schema.
    pub fn entities(mut self, json: &str) -> Result<Self, CedarError> {
        self.entities = Entities::from_json_str(json, self.schema.as_ref()).map_err(|source| error("entities")(source.into()))?;
        Ok(self)
    }

    /// Names users by their subject alone, whoever vouches for them: `User::"ada"` is each issuer's Ada. For applications that trust one
    /// issuer, or whose subjects are unique among all of them.
    #[must_use]
    pub const fn users_by_subject(mut self) -> Self {
        self.names.by_subject = true;
        self
    }

    fn opinion(&self, call: &ToolCall, tool: &ToolEntry) -> Result<Opinion, BoxError> {
        let user = self.names.user(call.context.principal())?;
        let (resource, entities) = (self.names.tool(&tool.spec().name), [self.user(&user, call.context.principal())?, self.tool(tool)?]);
        let arguments = expression(call.arguments.value()?, Self::MAX_DEPTH)?;
        let arguments = arguments.map_or_else(|| RestrictedExpression::new_record([]), Ok)?;
        let context = Context::from_pairs([("arguments".to_owned(), arguments)])?;
        let request = Request::new(user, self.names.action.clone(), resource, context, self.schema.as_ref())?;
        let entities = self.entities.clone().upsert_entities(entities, self.schema.as_ref())?;

        let answer = Authorizer::new().is_authorized(&request, &self.policies, &entities);
        if let Some(fault) = answer.diagnostics().errors().next() {
            return Err(fault.to_string().into());
        }
        let annotation = |key| answer.diagnostics().reason().find_map(|id| self.policies.annotation(id, key));
        let (effect, reason) = match (answer.decision(), annotation("ask")) {
            (Decision::Deny, _) => (Effect::Deny, annotation("reason")),
            (Decision::Allow, Some(why)) => (Effect::Ask, Some(why)),
            (Decision::Allow, None) => (Effect::Allow, None),
        };
        let opinion = Opinion::new(effect);
        Ok(match reason.filter(|reason| !reason.is_empty()) {
            Some(reason) => opinion.because(reason),
            None => opinion,
        })
    }

    fn user(&self, uid: &EntityUid, principal: &Principal) -> Result<Entity, BoxError> {
        let mut attributes = HashMap::from([
            ("scopes".to_owned(), texts(&principal.scopes)),
            ("subject".to_owned(), RestrictedExpression::new_string(principal.subject.clone())),
        ]);
        for (name, known) in [("issuer", &principal.issuer), ("acr", &principal.acr)] {
            attributes.extend(known.clone().map(|text| (name.to_owned(), RestrictedExpression::new_string(text))));
        }
        Ok(Entity::new(uid.clone(), attributes, self.groups(uid))?)
    }

    fn tool(&self, tool: &ToolEntry) -> Result<Entity, BoxError> {
        let uid = self.names.tool(&tool.spec().name);
        let believed = tool.believed();
        let mut attributes = HashMap::from([
            ("source".to_owned(), RestrictedExpression::new_string(tool.source().name.to_string())),
            ("tags".to_owned(), texts(&tool.spec().tags)),
        ]);
        let hints = [
            ("readOnly", believed.read_only),
            ("destructive", believed.destructive),
            ("idempotent", believed.idempotent),
            ("openWorld", believed.open_world),
        ];
        attributes.extend(hints.map(|(name, hint)| (name.to_owned(), RestrictedExpression::new_bool(hint))));
        let groups = self.groups(&uid);
        Ok(Entity::new(uid, attributes, groups)?)
    }

    fn groups(&self, uid: &EntityUid) -> HashSet<EntityUid> {
        self.entities.ancestors(uid).map(|all| all.cloned().collect()).unwrap_or_default()
    }
}

impl Names {
    fn user(&self, principal: &Principal) -> Result<EntityUid, BoxError> {
        let id = match &principal.issuer {
            _ if self.by_subject => EntityId::new(&principal.subject),
            // The first `#` is where the subject begins.
            Some(issuer) if issuer.contains('#') => return Err("the issuer of the principal has a `#`".into()),
            Some(issuer) => EntityId::new(format!("{issuer}#{}", principal.subject)),
            None if principal.subject.contains('#') => {
                return Err("the subject of the principal has a `#` and no issuer, and could be taken for another's".into());
            }
            None => EntityId::new(&principal.subject),
        };
        Ok(EntityUid::from_type_name_and_id(self.user.clone(), id))
    }

    fn tool(&self, name: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.tool.clone(), EntityId::new(name))
    }
}

fn texts(texts: impl IntoIterator<Item = impl ToString>) -> RestrictedExpression {
    RestrictedExpression::new_set(texts.into_iter().map(|text| RestrictedExpression::new_string(text.to_string())))
}

/// The value as Cedar has it, built piece by piece: in Cedar's JSON form a key of the model's, such as `__entity`, could mean something.
fn expression(value: &Value, depth: usize) -> Result<Option<RestrictedExpression>, BoxError> {
    if depth == 0 {
        return Err("the arguments are nested too deep".into());
    }
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Bool(truth) => RestrictedExpression::new_bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(number) => RestrictedExpression::new_long(number),
            None => RestrictedExpression::new_string(number.to_string()),
        },
        Value::String(text) => RestrictedExpression::new_string(text.clone()),
        Value::Array(items) => {
            let items = items.iter().filter_map(|item| expression(item, depth - 1).transpose());
            RestrictedExpression::new_set(items.collect::<Result<Vec<_>, _>>()?)
        }
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(key, field)| match expression(field, depth - 1).transpose()? {
                Ok(field) => Some(Ok((key.clone(), field))),
                Err(error) => Some(Err(error)),
            });
            RestrictedExpression::new_record(fields.collect::<Result<Vec<_>, BoxError>>()?)?
        }
    }))
}

impl PolicyEngine for CedarEngine {
    fn judge<'a>(&'a self, call: &'a ToolCall, tool: &'a ToolEntry) -> BoxFuture<'a, Result<Opinion, BoxError>> {
        Box::pin(ready(self.opinion(call, tool)))
    }
}

impl fmt::Debug for CedarEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CedarEngine").field("policies", &self.policies.policies().count()).finish_non_exhaustive()
    }
}
