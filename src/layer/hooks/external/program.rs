use std::{io, process::Stdio};

use futures_util::future::try_join3;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::Command,
};

use super::{Answer, AnswerError, ExternalEvent, ExternalHook};

/// Why a program has no say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExternalError {
    /// The arguments are not an object in which every key stands once, so that the program and the tool might read different things.
    #[error("the arguments are not an object in which every key stands once; they are not shown to a program")]
    Arguments,
    /// What would have to be shown is too large.
    #[error("the call is larger than the {limit} bytes that the program is shown")]
    #[non_exhaustive]
    InputTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// It could not be started, or not be talked to.
    #[error("the program cannot be run: {0}")]
    Run(#[from] io::Error),
    /// It answered with too much.
    #[error("the program answered with more than {limit} bytes")]
    #[non_exhaustive]
    OutputTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// It ended with a code that means nothing here, or by a signal.
    #[error("the program ended with {}", .code.map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}")))]
    #[non_exhaustive]
    Exit {
        /// The code; `None` for a signal.
        code: Option<i32>,
    },
    /// Its answer is none.
    #[error("the answer of the program: {0}")]
    Answer(#[from] AnswerError),
}

/// How a program ended.
pub(super) struct Exit {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Exit {
    pub(super) fn verdict(&self, event: ExternalEvent) -> Result<Answer, ExternalError> {
        match self.code {
            Some(0) => Ok(Answer::parse(event, &self.stdout)?),
            Some(2) => Ok(Answer::blocked(&self.stderr)),
            code => Err(ExternalError::Exit { code }),
        }
    }
}

/// How much of the standard error is kept; it is a reason for a model to read.
const KEPT_OF_STDERR: usize = 16 * 1024;

/// Runs the program to its end. Dropping the future kills it.
pub(super) async fn run(hook: &ExternalHook, input: Vec<u8>) -> Result<Exit, ExternalError> {
    let mut command = Command::new(&hook.program);
    command.args(&hook.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    if hook.clear_env {
        command.env_clear();
    }
    command.envs(hook.env.iter().map(|(key, value)| (key, value)));
    if let Some(dir) = &hook.dir {
        command.current_dir(dir);
    }
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());

    let write = async {
        let Some(mut stdin) = stdin else { return Ok(()) };
        match stdin.write_all(&input).await {
            // A program may decide without reading all of it.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    };
    let limit = hook.max_output;
    let answer = async {
        let kept = keep(stdout, limit.saturating_add(1)).await?;
        if kept.len() > limit { Err(ExternalError::OutputTooLarge { limit }) } else { Ok(kept) }
    };
    let reason = async {
        let mut stderr = stderr;
        let kept = keep(stderr.as_mut(), KEPT_OF_STDERR).await?;
        // The rest is read too, so that a program that says more than anybody reads can still end.
        if let Some(mut rest) = stderr {
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
        }
        Ok(kept)
    };
    let ((), stdout, stderr) = try_join3(write, answer, reason).await?;
    Ok(Exit { code: child.wait().await?.code(), stdout, stderr })
}

/// The first bytes of what there is to read.
async fn keep(from: Option<impl AsyncRead + Unpin>, most: usize) -> Result<Vec<u8>, ExternalError> {
    let mut kept = Vec::new();
    if let Some(from) = from {
        from.take(most as u64).read_to_end(&mut kept).await?;
    }
    Ok(kept)
}
