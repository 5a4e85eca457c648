/// Why a JSON Web Token is no good. For the operator: none of it reaches the caller, and nothing of the token is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// Its algorithm is none of those that are allowed.
    #[error("it is signed by an algorithm that is not allowed")]
    Algorithm,
    /// It is for somebody else.
    #[error("it is for another audience")]
    Audience,
    /// A claim has a value of the wrong kind.
    #[error("its claim `{0}` is not what it has to be")]
    Claim(String),
    /// It demands that something is understood which is not (`crit`).
    #[error("it demands an extension that is not understood")]
    Critical,
    /// It has ended.
    #[error("it has expired")]
    Expired,
    /// It is somebody else's.
    #[error("it is of another issuer")]
    Issuer,
    /// It names no key that there is, or none where there are several.
    #[error("there is no one key that it could be signed with")]
    Key,
    /// It is not a token of three parts, each of them JSON that can be read in one way only, or a signature.
    #[error("it cannot be read: {0}")]
    Malformed(&'static str),
    /// A claim that it has to have is not there.
    #[error("it has no claim `{0}`")]
    Missing(String),
    /// It has not begun.
    #[error("it is not valid yet")]
    NotYet,
    /// It is not signed by the key that it names.
    #[error("its signature is wrong")]
    Signature,
    /// It is a token of another kind (`typ`).
    #[error("it is of another type")]
    Type,
}

/// Why a verifier of JSON Web Tokens, or a set of keys, cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwtSetupError {
    /// It would accept tokens that are for anybody, or by anybody.
    #[error("a verifier needs an issuer and an audience")]
    Anybody,
    /// The set of keys cannot be read.
    #[error("the set of keys cannot be read: {0}")]
    KeySet(String),
    /// A key that both sides have is too short to be one.
    #[error("a key for this algorithm has at least {shortest} bytes")]
    ShortSecret {
        /// How many bytes it has to have.
        shortest: usize,
    },
}
