//! A table of calls and how they ended.

use std::fmt::{self, Write as _};

use serde_json::Value;
use toolstack::run::Answered;

/// How many characters a column shows; the last one goes on in the next line.
const CALL: usize = 46;
const READS: usize = 60;
const READS_LINES: usize = 3;

pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    /// The call, the outcome, and who refused.
    cells: [String; 3],
    reads: Vec<String>,
}

impl Table {
    pub(crate) fn new() -> Self {
        let cells = ["call", "outcome", "refused by"].map(str::to_owned);
        Self { rows: vec![Row { cells, reads: vec!["what the model reads".to_owned()] }] }
    }

    /// Adds a call, as it was asked for, and its answer.
    pub(crate) fn row(&mut self, arguments: &Value, note: &str, answered: &Answered) {
        let mut call = answered.name.to_string();
        for (key, value) in arguments.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = write!(call, " {key}={value}");
        }
        let by = answered.response.refusal().map_or("", |refusal| refusal.by());
        let outcome = answered.outcome().as_str().to_owned();
        let cells = [cut(&one_line(&call), CALL - note.len()) + note, outcome, by.to_owned()];
        self.rows.push(Row { cells, reads: wrapped(&one_line(&answered.response.as_text().unwrap_or_default())) });
    }
}

/// A text on one line, without control characters. Cut long before it could be much work.
fn one_line(text: &str) -> String {
    text.trim().chars().take(400).map(|c| if c == '\n' { '⏎' } else { c }).map(|c| if c.is_control() { '·' } else { c }).collect()
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width { text.to_owned() } else { text.chars().take(width - 1).chain(['…']).collect() }
}

/// The lines of a text, broken between words where there are any.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let full = lines.len() == READS_LINES;
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            *line = cut(word, READS);
        } else if line.chars().count() + 1 + word.chars().count() <= READS {
            let _ = write!(line, " {word}");
        } else if full {
            line.push('…');
            break;
        } else {
            lines.push(cut(word, READS));
        }
    }
    lines
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: [usize; 3] = std::array::from_fn(|at| self.rows.iter().map(|row| row.cells[at].chars().count()).max().unwrap_or(0));
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::from(" ");
            for (cell, width) in row.cells.iter().zip(widths) {
                let _ = write!(line, " {cell:<width$} ");
            }
            let indent = line.chars().count();
            for (number, reads) in row.reads.iter().enumerate() {
                let before = if number == 0 { line.as_str() } else { "" };
                writeln!(f, "{}", format!("{before:<indent$} {reads}").trim_end())?;
            }
            if number == 0 {
                writeln!(f, "  {}", "─".repeat(indent - 1 + READS))?;
            }
        }
        Ok(())
    }
}
