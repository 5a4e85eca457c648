#[allow(unused_imports, reason = "which features there are decides")]
use super::lacks;
use super::variable;
use crate::{
    credential::StaticCredentials,
    layer::{AuthenticateLayer, ChallengeLayer, StepUpLayer, authenticate::StaticTokens, step_up::StepUpRule},
    model::Principal,
    stack::{
        recommended::Edits,
        settings::{self, SettingsError},
    },
};

pub(in crate::stack) fn authenticate(
    settings: Option<settings::Authenticate>,
    edits: Edits<AuthenticateLayer>,
) -> Result<Option<AuthenticateLayer>, SettingsError> {
    if settings.is_none() && edits.is_empty() {
        return Ok(None);
    }
    let settings = settings.unwrap_or_default();
    let mut layer = AuthenticateLayer::new();
    if !settings.tokens.is_empty() {
        layer = layer.bearer(tokens(settings.tokens)?);
    }
    for (number, jwt) in settings.jwt.into_iter().enumerate() {
        layer = issuer(layer, number, jwt)?;
    }
    if settings.trust_context {
        layer = layer.trust_context();
    }
    if settings.anonymous {
        layer = layer.allow_anonymous();
    }
    if let Some(realm) = settings.realm {
        layer = layer.realm(realm);
    }
    if let Some(remember) = settings.remember {
        layer = layer.remember(remember.most, remember.at_most);
    }
    let layer = edits.apply(layer);
    if !layer.has_sources() {
        let what = "somebody to believe: `tokens`, `jwt`, `trust_context`, `anonymous` or a verifier that code gives";
        return Err(SettingsError::Missing { place: "authenticate", what });
    }
    Ok(Some(layer))
}

fn tokens(tokens: Vec<settings::Token>) -> Result<StaticTokens, SettingsError> {
    tokens.into_iter().enumerate().try_fold(StaticTokens::new(), |known, (number, token)| {
        let place = format!("authenticate.tokens[{number}].env");
        let principal = token.scopes.into_iter().fold(Principal::new(token.subject), Principal::scope);
        known.token(variable(place.clone(), &token.env)?, principal).map_err(|error| SettingsError::invalid(place, error))
    })
}

#[cfg(feature = "jwt")]
fn issuer(layer: AuthenticateLayer, number: usize, jwt: settings::Jwt) -> Result<AuthenticateLayer, SettingsError> {
    use crate::layer::authenticate::jwt::{JwtVerifier, KeySet};

    let place = || format!("authenticate.jwt[{number}]");
    let invalid = |error: crate::BoxError| SettingsError::invalid(format!("{}.keys_file", place()), error);
    let document = std::fs::read_to_string(&jwt.keys_file).map_err(|error| invalid(error.into()))?;
    let keys = KeySet::from_json(&document).map_err(|error| invalid(error.into()))?;
    let verifier = JwtVerifier::with_keys(keys, jwt.issuer, jwt.audience).map_err(|error| SettingsError::invalid(place(), error))?;
    Ok(layer.bearer(jwt.leeway.map_or(verifier.clone(), |leeway| verifier.leeway(leeway))))
}

#[cfg(not(feature = "jwt"))]
fn issuer(_: AuthenticateLayer, _: usize, _: settings::Jwt) -> Result<AuthenticateLayer, SettingsError> {
    lacks("authenticate.jwt", "jwt")
}

pub(in crate::stack) fn step_up(rules: Vec<StepUpRule>, edits: Edits<StepUpLayer>) -> Option<StepUpLayer> {
    (!rules.is_empty() || !edits.is_empty()).then(|| edits.apply(StepUpLayer::new(rules)))
}

pub(in crate::stack) fn challenge(settings: &settings::Challenge) -> ChallengeLayer {
    let layer = if settings.environment { ChallengeLayer::new(StaticCredentials::environment()) } else { ChallengeLayer::in_band() };
    match settings.wait {
        Some(wait) => layer.wait(wait),
        None => layer,
    }
}
