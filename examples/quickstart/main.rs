//! Tool calls on a real directory, through a real stack.
//!
//! Run with
//!
//! ```text
//! cargo run --example quickstart                   # a scripted turn on this checkout
//! cargo run --example quickstart -- DIR            # the same on another directory
//! cargo run --example quickstart -- DIR -          # reads calls as JSON lines, and answers one line each
//! ```
//!
//! The tools see nothing outside of the directory. The script writes one file below it, and removes it in the end; a call that is read
//! from the lines may write what it likes.

pub(crate) mod confined;
pub(crate) mod lines;
pub(crate) mod script;
mod table;
mod tools;
mod walk;

use std::{path::PathBuf, process::exit, time::Duration};

use tokio::io::{BufReader, stdin, stdout};
use toolstack::{ServiceBuilderExt, Stack, StackExt, layer::named};
use tower::{ServiceBuilder, limit::ConcurrencyLimitLayer};

use self::confined::Confined;

/// How many calls run at once.
const AT_ONCE: usize = 8;

/// The stack: outermost first. Built once; everything that calls tools has a clone of it.
pub(crate) fn stack(dir: &Confined) -> Stack {
    ServiceBuilder::new()
        .catch_panic()
        .catch_error()
        .visibility(|tool, context| !tool.has_tag("admin") || context.principal().has_scope("admin"))
        .call_timeout(Duration::from_secs(10))
        .load_shed()
        .layer(named("concurrency_limit", ConcurrencyLimitLayer::new(AT_ONCE)).setting("max", AT_ONCE))
        .service(tools::tools(dir))
        .into_stack()
}

const USAGE: &str = "usage: quickstart [DIR] [-]\n\n  DIR   the directory that the tools may use; the current one if left out\n  -     read calls as JSON lines from standard input, such as {\"id\":1,\"name\":\"list_dir\",\"arguments\":{}}";

#[tokio::main]
async fn main() {
    let (mut dir, mut lines) = (None, false);
    for argument in std::env::args_os().skip(1) {
        if argument == "-" {
            lines = true;
        } else if argument == "--help" || argument == "-h" {
            println!("{USAGE}");
            return;
        } else if dir.is_none() && !argument.as_encoded_bytes().starts_with(b"-") {
            dir = Some(PathBuf::from(argument));
        } else {
            fail(2, &format!("unexpected argument {argument:?}\n\n{USAGE}"));
        }
    }
    let path = dir.unwrap_or_else(|| PathBuf::from("."));
    let dir = Confined::open(&path).unwrap_or_else(|error| fail(1, &format!("cannot open the directory {path:?}: {error}")));
    quiet_demo_panic();

    if lines {
        if let Err(error) = lines::answer(&stack(&dir), BufReader::new(stdin()), &mut stdout()).await {
            // Whoever reads has gone: nothing is left to do.
            let gone = error.kind() == std::io::ErrorKind::BrokenPipe;
            if !gone {
                fail(1, &format!("cannot write the answers: {error}"));
            }
        }
        // Not by returning: the runtime would wait for a read of standard input that may never end.
        exit(0);
    }
    println!("The directory: {}\n", path.canonicalize().unwrap_or(path).display());
    if let Err(error) = script::run(&stack(&dir), &dir).await {
        fail(1, &error);
    }
}

fn fail(code: i32, message: &str) -> ! {
    eprintln!("{message}");
    exit(code)
}

/// The panic of the demo tool is one line, not a backtrace. All others show as ever.
fn quiet_demo_panic() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| match info.payload().downcast_ref::<&str>() {
        Some(text) if *text == tools::DEMO_PANIC => eprintln!("  stderr: {text}\n"),
        _ => others(info),
    }));
}
