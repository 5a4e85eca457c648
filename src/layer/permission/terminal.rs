use std::{
    fmt,
    io::{BufRead, IsTerminal, Write, stdin, stdout},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc},
    time::timeout,
};

use super::{Approval, ApprovalRequest, Approver, ApproverError, Scope, show};
use crate::error::BoxError;

/// An [`Approver`] that asks on a terminal, one question at a time.
///
/// It shows the tool, the arguments and why it asks, and takes the first letter of an answer that it offers; anything else is asked again.
/// Nothing that a model wrote reaches the terminal as more than text. The arguments are shown in full, as their canonical JSON, with codes
/// for what could not be seen; a call whose arguments take [more room](Self::show_at_most) is not asked about, and so refused. Where
/// standard input or output is no terminal, nobody is there to be asked.
///
/// Lines that were typed before the question was shown are no answer to it, and thrown away; a line that was begun before and ended after
/// is the next answer. Where the input never pauses, nobody is there to be asked.
///
/// A thread of its own reads the lines, so that no worker of the runtime waits for a person. It reads standard input from the first
/// question on, for as long as the program runs.
pub struct TerminalApprover {
    remember: Duration,
    shown: usize,
    lines: AsyncMutex<Option<mpsc::Receiver<String>>>,
    input: Mutex<Option<Box<dyn BufRead + Send>>>,
    output: Mutex<Box<dyn Write + Send>>,
    /// Whether input and output have to be a terminal.
    checked: bool,
}

/// How often a question is put before an answer that cannot be read is none.
const TRIES: usize = 3;

/// How long nothing is typed before a question is put.
const PAUSE: Duration = Duration::from_millis(50);

impl TerminalApprover {
    /// Asks on standard output, and reads standard input.
    #[must_use]
    pub fn new() -> Self {
        Self { checked: true, ..Self::with_io(std::io::BufReader::new(stdin()), stdout()) }
    }

    /// Asks there, and reads there, terminal or not.
    #[must_use]
    pub fn with_io(input: impl BufRead + Send + 'static, output: impl Write + Send + 'static) -> Self {
        Self {
            remember: Duration::from_secs(3600),
            shown: show::SHOWN,
            lines: AsyncMutex::new(None),
            input: Mutex::new(Some(Box::new(input))),
            output: Mutex::new(Box::new(output)),
            checked: false,
        }
    }

    /// Sets how long an answer is remembered that the person wants to be; an hour, if not set.
    #[must_use]
    pub const fn remember_for(mut self, time: Duration) -> Self {
        self.remember = time;
        self
    }

    /// Asks about calls whose arguments take at most so many characters; 10,000, if not set.
    #[must_use]
    pub const fn show_at_most(mut self, characters: usize) -> Self {
        self.shown = characters;
        self
    }

    fn write(&self, text: &str) -> Result<(), ApproverError> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(ApproverError::failed)
    }

    /// Starts the thread that reads, once.
    fn start(&self) -> Result<mpsc::Receiver<String>, BoxError> {
        let input = self.input.lock().unwrap_or_else(PoisonError::into_inner).take();
        let input = input.ok_or("the input is read by a thread that has ended")?;
        let (sender, lines) = mpsc::channel(16);
        std::thread::Builder::new().name("approvals".to_owned()).spawn(move || {
            // Says that it reads from now on.
            if sender.blocking_send(String::new()).is_err() {
                return;
            }
            for line in input.lines() {
                let Ok(line) = line else { break };
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
        })?;
        Ok(lines)
    }

    async fn put(&self, request: &ApprovalRequest) -> Result<Approval, ApproverError> {
        // One question at a time; the others wait here.
        let mut lines = self.lines.lock().await;
        let question = self.question(request)?;
        let lines = match &mut *lines {
            Some(lines) => lines,
            none => {
                let lines = none.insert(self.start().map_err(ApproverError::Failed)?);
                lines.recv().await.ok_or(ApproverError::Absent)?;
                lines
            }
        };
        pause(lines).await?;
        self.write(&question)?;
        for _ in 0..TRIES {
            let line = lines.recv().await.ok_or(ApproverError::Absent)?;
            if let Some(approval) = self.read(&line, request.may_remember) {
                return Ok(approval);
            }
            self.write("  Not one of the answers. > ")?;
        }
        Err(ApproverError::Dismissed)
    }

    fn question(&self, request: &ApprovalRequest) -> Result<String, ApproverError> {
        let (call, tool) = (&request.call, &request.tool);
        let subject = &call.context.principal().subject;
        let who = if subject.is_empty() { "somebody unnamed" } else { subject };
        let remembered = if request.may_remember {
            format!(", a: yes, and all of this tool for {0} s, s: yes, and the same again for {0} s", self.remember.as_secs())
        } else {
            String::new()
        };
        Ok(format!(
            "\nMay `{}` run? It comes from {}, and {} calls it.\n  with:    {}\n  because: {}\n  y: yes, once{remembered}, n: no > ",
            show::text(call.name(), 200),
            show::text(&tool.source().name, 200),
            show::text(who, 200),
            show::arguments(&call.arguments, self.shown)?,
            show::text(&request.explanation.why(), 400),
        ))
    }

    fn read(&self, line: &str, may_remember: bool) -> Option<Approval> {
        match (line.trim(), may_remember) {
            ("y" | "yes", _) => Some(Approval::once()),
            ("n" | "no", _) => Some(Approval::deny()),
            ("a", true) => Some(Approval::allow_for(Scope::Tool, self.remember)),
            ("s", true) => Some(Approval::allow_for(Scope::Call, self.remember)),
            _ => None,
        }
    }
}

/// Throws away what was typed before a question, which is no answer to it, until there is no more of it.
async fn pause(lines: &mut mpsc::Receiver<String>) -> Result<(), ApproverError> {
    let drained = async {
        // Whatever waits to be read is there at once; a person takes longer.
        while let Ok(line) = timeout(PAUSE, lines.recv()).await {
            line.ok_or(ApproverError::Absent)?;
        }
        Ok(())
    };
    timeout(PAUSE * 20, drained).await.unwrap_or(Err(ApproverError::Absent))
}

impl Default for TerminalApprover {
    fn default() -> Self {
        Self::new()
    }
}

impl Approver for TerminalApprover {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Result<Approval, ApproverError>> {
        Box::pin(async move {
            if self.checked && !(stdin().is_terminal() && stdout().is_terminal()) {
                return Err(ApproverError::Absent);
            }
            self.put(&request).await
        })
    }
}

impl fmt::Debug for TerminalApprover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalApprover").field("remember", &self.remember).finish_non_exhaustive()
    }
}
