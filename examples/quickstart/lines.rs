//! Calls as JSON lines: one line in, one line out, in the same order.

use std::io;

use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use toolstack::{
    Stack, StackExt, ToolCall, ToolResponse,
    model::{CallId, ToolName},
};

use super::AT_ONCE;

/// The longest line that is read, in bytes.
pub(crate) const LONGEST: usize = 1024 * 1024;

/// What is written for one line.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    /// A call was read, and this is what came of it.
    Called {
        id: CallId,
        name: ToolName,
        outcome: &'static str,
        /// Who refused, where somebody did.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        result: Box<ToolResponse>,
    },
    /// The line is no call.
    Malformed { id: (), line: usize, error: String },
}

enum Line {
    Read(Vec<u8>),
    TooLong,
}

/// Answers every line until the input ends. Lines of white space are passed over.
///
/// As many calls run at once as the stack takes; an answer waits for those before it.
pub(crate) async fn answer<R, W>(stack: &Stack, input: R, output: &mut W) -> io::Result<()>
where
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let lines = stream::unfold((Some(input), 0), |(input, before)| async move {
        let mut input = input?;
        let number = before + 1;
        match next_line(&mut input).await {
            Ok(None) => None,
            Ok(Some(line)) => Some(((number, Ok(line)), (Some(input), number))),
            Err(error) => Some(((number, Err(error)), (None, number))),
        }
    });
    let answers = lines.filter_map(|(number, line)| async move { read_call(number, line).transpose() }).map(|call| run(stack, call));
    let mut answers = std::pin::pin!(answers.buffered(AT_ONCE));
    while let Some(answer) = answers.next().await {
        let mut line = serde_json::to_string(&answer)?;
        line.push('\n');
        output.write_all(line.as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}

/// The call that a line is; `None` for white space.
fn read_call(number: usize, line: io::Result<Line>) -> Result<Option<ToolCall>, Answer> {
    // An error may quote the line.
    let malformed = |error: String| Answer::Malformed { id: (), line: number, error: error.chars().take(200).collect() };
    match line {
        Ok(Line::Read(line)) if line.trim_ascii().is_empty() => Ok(None),
        Ok(Line::Read(line)) => serde_json::from_slice(&line).map(Some).map_err(|error| malformed(format!("not a call: {error}"))),
        Ok(Line::TooLong) => Err(malformed(format!("the line is longer than {LONGEST} bytes"))),
        Err(error) => Err(malformed(format!("the input cannot be read: {error}"))),
    }
}

async fn run(stack: &Stack, call: Result<ToolCall, Answer>) -> Answer {
    let call = match call {
        Ok(call) => call,
        Err(malformed) => return malformed,
    };
    let (id, name) = (call.id.clone(), call.name().clone());
    let response = stack.run_call(call).await;
    let by = response.refusal().map(|refusal| refusal.by().to_owned());
    Answer::Called { id, name, outcome: response.outcome().as_str(), by, result: Box::new(response) }
}

/// The next line without its end, if it is not too long; the rest of one that is, is read and forgotten.
async fn next_line<R: AsyncBufRead + Unpin>(input: &mut R) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut began = false;
    let mut too_long = false;
    loop {
        let buffer = input.fill_buf().await?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let at_end = buffer.is_empty();
        began |= !at_end;
        too_long |= line.len() + part.len() > LONGEST;
        if too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() || at_end {
            return Ok(began.then_some(if too_long { Line::TooLong } else { Line::Read(line) }));
        }
    }
}
