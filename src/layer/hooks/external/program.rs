use std::{io, pin::pin, process::Stdio, time::Duration};

use futures_util::future::{Either, select, try_join3};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    time::timeout,
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
    said: Said,
}

/// What a program wrote, as far as it is kept.
#[derive(Default)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// The limit of the standard output, where there was more.
    too_much: Option<usize>,
}

impl Exit {
    pub(super) fn verdict(&self, event: ExternalEvent) -> Result<Answer, ExternalError> {
        match (self.code, self.said.too_much) {
            // A no is a no, whatever else was said.
            (Some(2), _) => Ok(Answer::blocked(&self.said.stderr)),
            (_, Some(limit)) => Err(ExternalError::OutputTooLarge { limit }),
            (Some(0), None) => Ok(Answer::parse(event, &self.said.stdout)?),
            (code, None) => Err(ExternalError::Exit { code }),
        }
    }
}

/// How much of the standard error is kept; it is a reason for a model to read.
const KEPT_OF_STDERR: usize = 16 * 1024;

/// How long the rest of a reason is waited for once the program has blocked: something that it started may hold its streams open.
const REST: Duration = Duration::from_millis(500);

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
    let mut said = Said::default();
    let code = {
        let mut streams = pin!(talk(&mut child, &input, hook.max_output, &mut said));
        let mut ended = pin!(child.wait());
        match select(&mut ended, &mut streams).await {
            Either::Left((status, _)) => {
                let code = status?.code();
                if code == Some(2) {
                    let _ = timeout(REST, streams).await;
                } else {
                    streams.await?;
                }
                code
            }
            Either::Right((talked, _)) => {
                let code = ended.await?.code();
                if code != Some(2) {
                    talked?;
                }
                code
            }
        }
    };
    Ok(Exit { code, said })
}

/// Writes the program's input and reads all that it says.
fn talk<'a>(child: &mut Child, input: &'a [u8], limit: usize, said: &'a mut Said) -> impl Future<Output = io::Result<()>> + use<'a> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async move {
        let Some(mut stdin) = stdin else { return Ok(()) };
        match stdin.write_all(input).await {
            // A program may decide without reading all of it.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    };
    let Said { stdout: answer, stderr: reason, too_much } = said;
    let answer = async move {
        if keep(stdout, limit, answer).await? {
            *too_much = Some(limit);
        }
        Ok(())
    };
    let reason = keep(stderr, KEPT_OF_STDERR, reason);
    async move { try_join3(write, answer, reason).await.map(|_| ()) }
}

/// Keeps the first bytes of what there is to read, and says whether there were more. Those are read too and thrown away, so that a program
/// that says more than anybody reads can still end.
async fn keep(from: Option<impl AsyncRead + Unpin>, most: usize, kept: &mut Vec<u8>) -> io::Result<bool> {
    let Some(mut from) = from else { return Ok(false) };
    (&mut from).take(most as u64).read_to_end(kept).await?;
    Ok(tokio::io::copy(&mut from, &mut tokio::io::sink()).await? > 0)
}
