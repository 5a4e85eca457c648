use std::{borrow::Cow, time::Duration};

use tower::{ServiceBuilder, layer::util::Stack};

use crate::{
    credential::CredentialProvider,
    error::Refusal,
    layer::{
        AuditLayer, AuthenticateLayer, CallsLayer, CatchErrorLayer, CatchPanicLayer, ChallengeLayer, PermissionLayer, PinLayer,
        PolicyLayer, RedactLayer, RequireFieldsLayer, ScopesLayer, SessionLayer, StepUpLayer, TelemetryLayer, TimeoutLayer, ValidateLayer,
        VisibilityLayer,
        audit::AuditSink,
        authenticate::TokenVerifier,
        calls,
        closures::{self, Gate, GateAsync, GateTool, MapCall, MapList, MapResult},
        hooks::HooksLayer,
        permission::{Effect, Rules},
        redact::Redactor,
        scopes::ScopeRules,
        step_up::StepUpRule,
        telemetry::Metrics,
        validate::Validator,
    },
    model::{Context, ToolCall, ToolList, ToolResult, ToolSpec},
    store::SessionStore,
    tool::ToolEntry,
};

#[allow(unnameable_types, reason = "sealed: nobody else implements the trait")]
mod sealed {
    pub trait Sealed<L> {}

    impl<L> Sealed<L> for tower::ServiceBuilder<L> {}
}

macro_rules! layers {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $([$($generic:tt)*])? ($($arg:ident: $type:ty),*) -> $layer:ty $(where [$($bound:tt)*])? = $value:expr;
    )*) => {
        /// The layers of this crate as methods of [`ServiceBuilder`]. The first one is outermost.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tower::ServiceBuilder;
        /// use toolstack::{Router, ServiceBuilderExt};
        ///
        /// let stack = ServiceBuilder::new()
        ///     .catch_panic()
        ///     .visibility(|tool, _| !tool.has_tag("internal"))
        ///     .call_timeout(Duration::from_secs(30))
        ///     .service(Router::new());
        /// # let _ = stack;
        /// ```
        pub trait ServiceBuilderExt<L>: sealed::Sealed<L> + Sized {
            $(
                $(#[$doc])*
                fn $name $(<$($generic)*>)? (self, $($arg: $type),*) -> ServiceBuilder<Stack<$layer, L>>
                $(where $($bound)*)?;
            )*
        }

        impl<L> ServiceBuilderExt<L> for ServiceBuilder<L> {
            $(
                fn $name $(<$($generic)*>)? (self, $($arg: $type),*) -> ServiceBuilder<Stack<$layer, L>>
                $(where $($bound)*)?
                {
                    self.layer($value)
                }
            )*
        }
    };
}

layers! {
    /// Keeps a record of each operation. See [`audit`](crate::layer::audit).
    fn audit[Sink](sink: Sink) -> AuditLayer
        where [Sink: AuditSink] = AuditLayer::new(sink);

    /// Finds out who asks, by a bearer token. See [`authenticate`](crate::layer::authenticate).
    fn authenticate[V](verifier: V) -> AuthenticateLayer
        where [V: TokenVerifier] = AuthenticateLayer::new().bearer(verifier);

    /// Lets a layer of another crate see tool calls only. See [`calls`](crate::layer::calls()).
    fn calls[Inner](layer: Inner) -> CallsLayer<Inner> = calls::calls(layer);

    /// Turns errors of other crates' layers into refusals. See [`catch_error`](crate::layer::catch_error).
    fn catch_error() -> CatchErrorLayer = CatchErrorLayer::new();

    /// Turns panics into refusals. See [`catch_panic`](crate::layer::catch_panic).
    fn catch_panic() -> CatchPanicLayer = CatchPanicLayer::new();

    /// Gets a credential for a tool that asks for one, and calls once more; for the answer in band alone, give
    /// [`ChallengeLayer::in_band`] to `layer`. See [`challenge`](crate::layer::challenge).
    fn challenge[P](provider: P) -> ChallengeLayer
        where [P: CredentialProvider] = ChallengeLayer::new(provider);

    /// Decides about each call, and may change it. See [`gate`](crate::layer::gate).
    fn gate[F](name: impl Into<Cow<'static, str>>, closure: F) -> PolicyLayer<Gate<F>>
        where [F: Fn(&mut ToolCall) -> Result<(), Refusal> + Send + Sync + 'static] = closures::gate(name, closure);

    /// Decides about each call, and takes the time it needs. See [`gate_async`](crate::layer::gate_async).
    fn gate_async[F, Fut](name: impl Into<Cow<'static, str>>, closure: F) -> PolicyLayer<GateAsync<F>>
        where [F: Fn(ToolCall) -> Fut + Send + Sync + 'static, Fut: Future<Output = Result<(), Refusal>> + Send + 'static]
        = closures::gate_async(name, closure);

    /// Decides about each call by what its tool is. See [`gate_tool`](crate::layer::gate_tool).
    fn gate_tool[F](name: impl Into<Cow<'static, str>>, closure: F) -> PolicyLayer<GateTool<F>>
        where [F: Fn(&ToolCall, &ToolEntry) -> Result<(), Refusal> + Send + Sync + 'static] = closures::gate_tool(name, closure);

    /// Runs hooks. See [`hooks`](crate::layer::hooks).
    fn hooks(hooks: HooksLayer) -> HooksLayer = hooks;

    /// Changes each call. See [`map_call`](crate::layer::map_call).
    fn map_call[F](name: impl Into<Cow<'static, str>>, closure: F) -> PolicyLayer<MapCall<F>>
        where [F: Fn(&mut ToolCall) + Send + Sync + 'static] = closures::map_call(name, closure);

    /// Changes each list. See [`map_list`](crate::layer::map_list).
    fn map_list[F](name: impl Into<Cow<'static, str>>, closure: F) -> PolicyLayer<MapList<F>>
        where [F: Fn(&mut ToolList, &Context) + Send + Sync + 'static] = closures::map_list(name, closure);

    /// Changes each result. See [`map_result`](crate::layer::map_result).
    fn map_tool_result[F](name: impl Into<Cow<'static, str>>, closure: F) -> PolicyLayer<MapResult<F>>
        where [F: Fn(&mut ToolResult) + Send + Sync + 'static] = closures::map_result(name, closure);

    /// Decides whether a tool runs, by rules; `unmatched` is what happens to a call that no rule is about. To ask a person, give a
    /// [`PermissionLayer`] to `layer`. See [`permission`](crate::layer::permission).
    fn permission(rules: Rules, unmatched: Effect) -> PermissionLayer = PermissionLayer::new(rules, unmatched);

    /// Sets an argument to the session of the context, whatever the model chose. See [`PinLayer`].
    fn pin_session(parameter: &str) -> PinLayer = PinLayer::session(parameter);

    /// Hides secrets in results. See [`redact`](crate::layer::redact).
    fn redact(redactor: Redactor) -> RedactLayer = RedactLayer::new(redactor);

    /// Requires that arguments are there and not `null`. See [`RequireFieldsLayer`].
    fn require_fields[Names](names: Names) -> RequireFieldsLayer
        where [Names: IntoIterator<Item: Into<String>>] = RequireFieldsLayer::present(names);

    /// Requires the scopes that tools need. See [`scopes`](crate::layer::scopes).
    fn scopes(rules: ScopeRules) -> ScopesLayer = ScopesLayer::new(rules);

    /// Resolves and holds the open sessions that an argument names. See [`session`](crate::layer::session).
    fn sessions[Store](store: Store, parameter: &str) -> SessionLayer
        where [Store: SessionStore] = SessionLayer::new(store).argument(parameter).require_open();

    /// Asks for a stronger or more recent sign-in. See [`step_up`](crate::layer::step_up).
    fn step_up[Rules](rules: Rules) -> StepUpLayer
        where [Rules: IntoIterator<Item = StepUpRule>] = StepUpLayer::new(rules);

    /// Makes a span of each operation, and counts it there. See [`telemetry`](crate::layer::telemetry).
    fn telemetry(metrics: &Metrics) -> TelemetryLayer = TelemetryLayer::new().metrics(metrics);

    /// Bounds how long a call takes, and answers with a refusal. See [`timeout`](crate::layer::timeout).
    fn call_timeout(total: Duration) -> TimeoutLayer = TimeoutLayer::new(total);

    /// Checks arguments and structured results against the schemas of tools. See [`validate`](crate::layer::validate).
    fn validate[V](validator: V) -> ValidateLayer
        where [V: Validator] = ValidateLayer::new(validator);

    /// Decides which tools there are for this caller. See [`visibility`](crate::layer::visibility).
    fn visibility[F](visible: F) -> VisibilityLayer<F>
        where [F: Fn(&ToolSpec, &Context) -> bool + Send + Sync + 'static] = VisibilityLayer::new(visible);
}
