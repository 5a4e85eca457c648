//! Whatever text comes as a token.

use proptest::prelude::*;
use serde_json::json;
use toolstack::layer::authenticate::{BearerToken, TokenVerifier};

use crate::mint::{forge, signer, token_with, verifier};

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_a_token_and_none_does_harm(text in r"[A-Za-z0-9._~+/-]{1,200}={0,2}") {
        let token = BearerToken::new(text).unwrap();
        prop_assert!(verifier().verify_now(&token).unwrap().is_err());
    }

    #[test]
    fn a_text_of_other_characters_is_not_even_a_bearer_token(text in r"[A-Za-z0-9.]{0,20}[^A-Za-z0-9._~+/=-][A-Za-z0-9.]{0,20}") {
        prop_assert!(BearerToken::new(text).is_err());
    }

    #[test]
    fn a_token_with_one_character_changed_is_refused(at in 0_usize..400, other in r"[A-Za-z0-9_.-]") {
        let mut token = token_with(json!({}));
        let at = at % token.len();
        prop_assume!(token[at..=at] != other);
        token.replace_range(at..=at, &other);
        let error = verifier().verify_now(&BearerToken::new(token.clone()).unwrap()).unwrap().unwrap_err();
        // Nothing of the token is in any text that the error gives.
        let texts = format!("{error} {error:?} {}", std::error::Error::source(&error).unwrap());
        prop_assert!(token.split('.').filter(|part| part.len() > 8).all(|part| !texts.contains(part)), "{texts}");
    }

    #[test]
    fn a_signed_header_and_signed_claims_of_any_kind_do_no_harm(
        header in r#"\{("(alg|kid|typ|crit|b64|jwk)":("ES256"|"ec"|1|null|\[\]|"at\+jwt"),){0,3}"alg":"ES256"\}"#,
        claims in r#"\{("(iss|aud|sub|exp|nbf|scope|acr|auth_time)":("a"|1e308|-1|18446744073709551615|null|\["a",1\]|\{\}),){0,4}"x":1\}"#,
    ) {
        let token = forge(&header, &claims, jsonwebtoken::Algorithm::ES256, &signer(jsonwebtoken::Algorithm::ES256));
        prop_assert!(verifier().verify_now(&BearerToken::new(token).unwrap()).unwrap().is_err());
    }
}
