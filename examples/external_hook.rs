//! A hook that is a program, over the quickstart's tools: a few lines of shell that keep a model away from keys and lock files.
//!
//! Run with `cargo run --features process --example external_hook`. Needs `/bin/sh`.

#[allow(dead_code, reason = "of the quickstart's tools, only some are called here")]
#[path = "quickstart/confined.rs"]
mod confined;
#[allow(dead_code, reason = "as above")]
#[path = "quickstart/tools.rs"]
mod tools;
#[allow(dead_code, reason = "as above")]
#[path = "quickstart/walk.rs"]
mod walk;

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use toolstack::{
    RefusalKind, ServiceBuilderExt, StackExt,
    layer::hooks::{HooksLayer, external::ExternalHook},
    model::Outcome,
    select::ToolSelector,
};
use tower::ServiceBuilder;

/// The program. It reads the call on its standard input, and says what it decides.
const GUARD: &str = r#"
case "$(cat)" in
    *id_rsa*|*.pem*)
        echo "Keys are not for reading." >&2
        exit 2 ;;
    *Cargo.lock*)
        echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask",
            "permissionDecisionReason":"A person has to look at changes of the lock file."}}' ;;
    *'"tool_name":"write_file"'*)
        # Says yes in words of its own, which is no answer.
        echo '{"decision":"approve"}' ;;
    *)
        echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow",
            "additionalContext":"The guard has looked at this call."}}' ;;
esac
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let guard = ExternalHook::new("guard", "/bin/sh").arg("-c").arg(GUARD).clear_env().env("PATH", "/usr/bin:/bin");
    let files = ToolSelector::new().name("*_file")?.name("list_*")?;
    let hooks = HooksLayer::new().hook(guard.before().only(files).timeout(Duration::from_secs(10)));
    let failures = hooks.failures();
    let dir = confined::Confined::open(Path::new(env!("CARGO_MANIFEST_DIR")))?;
    let stack = ServiceBuilder::new().catch_panic().hooks(hooks).service(tools::tools(&dir));
    print!("{}\n\n", stack.describe().await.layers().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));

    let calls: [(&str, Value, Outcome); 4] = [
        ("read_file", json!({ "path": "CHANGELOG.md" }), Outcome::Completed),
        ("read_file", json!({ "path": ".ssh/id_rsa" }), Outcome::Refused(RefusalKind::Denied)),
        ("read_file", json!({ "path": "Cargo.lock" }), Outcome::Refused(RefusalKind::ApprovalNeeded)),
        ("write_file", json!({ "path": "x", "text": "y" }), Outcome::Refused(RefusalKind::Internal)),
    ];
    for (tool, arguments, expected) in calls {
        let response = stack.call_tool(tool, arguments.clone()).await;
        let text = response.as_text().unwrap_or_default();
        println!("{tool} {arguments}\n  {}: {}", response.outcome(), text.lines().next().unwrap_or_default());
        for remark in response.remarks() {
            println!("  {}: {}", remark.by, remark.text);
        }
        if let Some(source) = response.refusal().and_then(std::error::Error::source) {
            println!("  for the operator: {source}");
        }
        assert_eq!(response.outcome(), expected);
    }
    assert_eq!(failures.of("guard"), 1);
    Ok(())
}
