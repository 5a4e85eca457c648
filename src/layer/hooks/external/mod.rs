//! Hooks that are programs (feature `process`).
//!
//! A program is started for each event. It reads one JSON object from its standard input, in the form that Claude Code gives its hooks,
//! and says what it decides on its standard output or by its exit code. It is started as it is, without a shell.
//!
//! # Example
//!
//! A hook in a few lines of shell, which lets nothing near the keys:
//!
//! ```
//! # #[cfg(unix)]
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use std::time::Duration;
//! use serde_json::json;
//! use tower::ServiceBuilder;
//! use toolstack::{Router, StackExt, layer::hooks::{HooksLayer, external::ExternalHook}, tool::tool_fn};
//!
//! # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Read { path: String }
//! let guard = ExternalHook::new("guard", "/bin/sh").arg("-c").arg(r#"
//!     case "$(cat)" in
//!         *id_rsa*) echo "Keys are not for reading." >&2; exit 2 ;;
//!     esac
//!     echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'
//! "#);
//! let stack = ServiceBuilder::new()
//!     .layer(HooksLayer::new().hook(guard.before().timeout(Duration::from_secs(10))))
//!     .service(Router::new().tool(tool_fn("read", |read: Read| async move { read.path })));
//!
//! assert!(stack.call_tool("read", json!({ "path": "notes.txt" })).await.is_completed());
//! let answer = stack.call_tool("read", json!({ "path": ".ssh/id_rsa" })).await;
//! assert_eq!(answer.as_text().as_deref(), Some("Keys are not for reading."));
//! assert_eq!(answer.refusal().unwrap().by(), "guard");
//! # }
//! # #[cfg(not(unix))] fn main() {}
//! ```
//!
//! # What it reads
//!
//! | field | holds |
//! |---|---|
//! | `hook_event_name` | `PreToolUse` or `PostToolUse` |
//! | `session_id` | the session, or `null` |
//! | `tool_name`, `tool_use_id` | the tool that is asked for, and the id of the call |
//! | `tool_input` | the arguments, as their JSON text came: no number is rounded |
//! | `tool_response` | of `PostToolUse`: the result, in the form of MCP's `CallToolResult` |
//!
//! Arguments in which a key stands twice, or which are no object, are not shown: what the program read in them might not be what the tool
//! reads.
//!
//! # What it answers
//!
//! With exit code 2 it blocks, and its standard error is the reason, whatever stands on its standard output, and however much. With exit code 0 its
//! standard output is one JSON object, [`Answer`], and nothing else:
//!
//! | field | of `hookSpecificOutput` |
//! |---|---|
//! | `hookEventName` | the event, as it was asked |
//! | `permissionDecision` | of `PreToolUse`: `allow`, `deny`, or `ask`, for a person has to approve |
//! | `permissionDecisionReason` | why, for the model |
//! | `updatedInput` | beside `allow`: other arguments |
//! | `additionalContext` | a [remark](crate::model::Remark) for the model |
//!
//! A `PostToolUse` hook withholds the result with `"decision":"block"` and a `"reason"` beside `hookSpecificOutput`.
//!
//! Anything else is a failure of the hook, and as such refused unless it [fails open](super::Hook::fail_open): nothing at all, half an
//! object, a field or a word that is not in this table, a known one in another place, another exit code, a signal, more output than
//! [allowed](ExternalHook::max_output), or taking too long. It is never taken for having no opinion, and never told as a person's no.
//!
//! # Cancellation
//!
//! The program is killed when its time is over, and when the call is dropped. Programs that it started itself are not.

mod answer;
mod exact;
mod program;

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
    sync::Arc,
};

use serde::Serialize;
use serde_json::value::RawValue;

pub use self::{
    answer::{Answer, AnswerError, Decision, ExternalEvent},
    program::ExternalError,
};
use super::{
    halt::Halt,
    hook::{Flow, Hook},
};
use crate::{
    error::{Refusal, RefusalKind},
    model::{Arguments, CallId, ToolCall, ToolResult},
};

/// A hook that is a program; see the [module](self).
#[must_use = "a program is not a hook until `before` or `after` makes it one"]
#[derive(Clone)]
pub struct ExternalHook {
    name: std::borrow::Cow<'static, str>,
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    clear_env: bool,
    dir: Option<PathBuf>,
    max_input: usize,
    max_output: usize,
}

/// What a program reads.
#[derive(Serialize)]
struct Input<'a> {
    session_id: Option<&'a str>,
    hook_event_name: ExternalEvent,
    tool_name: &'a str,
    tool_use_id: &'a CallId,
    tool_input: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_response: Option<&'a ToolResult>,
}

impl ExternalHook {
    /// How many bytes a program is shown, unless [`max_input`](Self::max_input) says otherwise.
    pub const MAX_INPUT: usize = 8 * 1024 * 1024;

    /// How many bytes a program may answer, unless [`max_output`](Self::max_output) says otherwise.
    pub const MAX_OUTPUT: usize = 1024 * 1024;

    /// A program, by its path or as it is found along `PATH`.
    pub fn new(name: impl Into<std::borrow::Cow<'static, str>>, program: impl AsRef<OsStr>) -> Self {
        Self {
            name: name.into(),
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            clear_env: false,
            dir: None,
            max_input: Self::MAX_INPUT,
            max_output: Self::MAX_OUTPUT,
        }
    }

    /// Adds an argument. No shell reads it.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Leaves it no variable of this process's environment but those that are [set](Self::env).
    pub const fn clear_env(mut self) -> Self {
        self.clear_env = true;
        self
    }

    /// Runs it in this directory.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Shows it no more than this many bytes. A call that is larger is refused.
    pub const fn max_input(mut self, bytes: usize) -> Self {
        self.max_input = bytes;
        self
    }

    /// Keeps no more than this many bytes of its answer. What comes beyond is read and thrown away until the program ends: it has failed
    /// then, unless it ends with exit code 2. One that never ends is killed when its time is over.
    pub const fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }

    /// The hook that runs it before a tool runs (`PreToolUse`).
    pub fn before(&self) -> Hook {
        let this = Arc::new(self.clone());
        Hook::before_async(self.name.clone(), move |call| {
            let this = Arc::clone(&this);
            Box::pin(async move {
                let answer = this.ask(ExternalEvent::PreToolUse, call.call(), None).await?;
                if let Some(context) = answer.context {
                    call.remark(context);
                }
                if let Some(input) = answer.updated_input {
                    call.set_arguments(Arguments::from(input));
                }
                this.decided(answer.decision, answer.reason)
            })
        })
    }

    /// The hook that runs it over the result (`PostToolUse`).
    pub fn after(&self) -> Hook {
        let this = Arc::new(self.clone());
        Hook::after_async(self.name.clone(), move |call| {
            let this = Arc::clone(&this);
            Box::pin(async move {
                let answer = this.ask(ExternalEvent::PostToolUse, call.call(), Some(call.result())).await?;
                if let Some(context) = answer.context {
                    call.remark(context);
                }
                this.decided(answer.decision, answer.reason)
            })
        })
    }

    async fn ask(&self, event: ExternalEvent, call: &ToolCall, result: Option<&ToolResult>) -> Result<Answer, Halt> {
        // Not the program's failure, and so no reason to go on without it: whoever wrote the arguments could choose to be unseen.
        let input = self.input(event, call, result).map_err(|error| {
            let kind = if result.is_some() { RefusalKind::InvalidOutput } else { RefusalKind::InvalidArguments };
            Halt::refuse(Refusal::new(kind, format!("The hook {} was not shown this: {error}.", self.name)).with_source(error))
        })?;
        let exit = program::run(self, input).await?;
        Ok(exit.verdict(event)?)
    }

    fn input(&self, event: ExternalEvent, call: &ToolCall, result: Option<&ToolResult>) -> Result<Vec<u8>, ExternalError> {
        let arguments = call.arguments.as_json().map_err(|_| ExternalError::Arguments)?;
        if arguments.len() > self.max_input {
            return Err(ExternalError::InputTooLarge { limit: self.max_input });
        }
        let input = serde_json::to_vec(&Input {
            session_id: call.context.session(),
            hook_event_name: event,
            tool_name: call.name(),
            tool_use_id: &call.id,
            tool_input: exact::object(arguments).ok_or(ExternalError::Arguments)?,
            tool_response: result,
        });
        match input {
            Ok(input) if input.len() > self.max_input => Err(ExternalError::InputTooLarge { limit: self.max_input }),
            Ok(input) => Ok(input),
            Err(_) => Err(ExternalError::Arguments),
        }
    }

    fn decided(&self, decision: Decision, reason: Option<String>) -> Flow {
        match decision {
            Decision::Allow => Ok(()),
            Decision::Deny => Err(Halt::error(reason.unwrap_or_else(|| format!("The hook {} does not allow this.", self.name)))),
            Decision::Ask => {
                let message = reason.unwrap_or_else(|| format!("The hook {} wants a person to approve this.", self.name));
                Err(Halt::refuse(Refusal::new(RefusalKind::ApprovalNeeded, message)))
            }
        }
    }
}

impl fmt::Debug for ExternalHook {
    /// Without arguments and variables, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalHook").field("name", &self.name).field("program", &self.program).finish_non_exhaustive()
    }
}
