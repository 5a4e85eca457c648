//! Rules from a file, checked when they are loaded, against their own examples and the tools there are; then explained, then at work.
//!
//! Run with `cargo run --example policy_file`.

#[allow(dead_code, reason = "of the quickstart's tools, this uses some")]
#[path = "../quickstart/confined.rs"]
mod confined;
#[allow(dead_code, reason = "of the quickstart's tools, this uses some")]
#[path = "../quickstart/tools.rs"]
mod tools;
#[allow(dead_code, reason = "of the quickstart's tools, this uses some")]
#[path = "../quickstart/walk.rs"]
mod walk;

use std::{error::Error, fs, path::PathBuf};

use serde_json::{Value, json};
use toolstack::{
    StackExt, ToolCall,
    layer::permission::{Effect, PermissionLayer, Rules},
};
use tower::ServiceBuilder;

const POLICY: &str = include_str!("policy.toml");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = Scratch::new()?;
    let tools = tools::tools(&confined::Confined::open(&dir.0)?);

    // A wrong rule is an error that names it; a misspelt tool is found once the tools are known.
    let error = toml::from_str::<Rules>(&POLICY.replace("within = \"drafts\"", "within = \"drafts/old\"")).unwrap_err();
    println!("{}\n", error.message());
    assert_eq!(error.message(), "the rule `drafts`: it takes no effect on its example 1 of `matches`");
    let misspelt = Rules::from_json(r#"{"rules":[{"id":"typo","effect":"deny","tools":{"names":["wrte_file"]}}]}"#)?;
    println!("{}\n", misspelt.require(&tools.catalog()).unwrap_err());

    let rules: Rules = toml::from_str(POLICY)?;
    rules.require(&tools.catalog())?;

    let layer = PermissionLayer::new(rules, Effect::Deny);
    let handle = layer.handle();
    let catalog = tools.catalog();
    let stack = ServiceBuilder::new().layer(layer).service(tools);

    let names: Vec<String> = stack.list_tools().await.names().map(str::to_owned).collect();
    println!("listed: {}\n", names.join(", "));
    assert!(!names.contains(&"disk_usage".to_owned()), "only admins may, so nobody else sees it");

    let calls: [(&str, Value, &str); 5] = [
        ("list_dir", json!({}), "completed"),
        ("read_file", json!({ "path": "app/.env" }), "denied"),
        ("write_file", json!({ "path": "drafts/a.md", "content": "a" }), "completed"),
        ("write_file", json!({ "path": "drafts/../a.md", "content": "a" }), "denied"),
        // Nobody is there to be asked.
        ("write_file", json!({ "path": "a.md", "content": "a", "overwrite": true }), "approval_needed"),
    ];
    for (name, arguments, expected) in calls {
        let call = ToolCall::new(name, arguments);
        if let Some(tool) = catalog.get(name) {
            println!("{}", handle.explain(&call, &tool));
        }
        let response = stack.run_call(call).await;
        println!("  => {}: {}\n", response.outcome().as_str(), response.as_text().unwrap_or_default().lines().next().unwrap_or_default());
        assert_eq!(response.outcome().as_str(), expected);
    }
    Ok(())
}

/// A directory that is gone in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("toolstack-policy-{}", std::process::id()));
        fs::create_dir_all(dir.join("drafts"))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
