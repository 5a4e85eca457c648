use std::fmt::{self, Write};

use super::{Description, Note};

impl Description {
    /// The stack as a [Mermaid](https://mermaid.js.org/syntax/flowchart.html) flowchart: a call comes in at the top.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use tower::ServiceBuilder;
    /// use toolstack::{Router, ServiceBuilderExt, StackExt, tool::sync_tool_fn};
    ///
    /// let stack = ServiceBuilder::new().catch_panic().service(Router::new().tool(sync_tool_fn("ping", || "pong")));
    /// let graph = stack.describe().await.to_mermaid();
    /// assert!(graph.starts_with("flowchart TB\n    call([call]) --> l0\n    l0[\"catch_panic\"] --> router\n"), "{graph}");
    /// # }
    /// ```
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        let mut out = String::new();
        // Writing to a text does not fail.
        let _ = self.draw(&mut out);
        out
    }

    fn draw(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "flowchart TB")?;
        if !self.has_router()
            && let Some(refusal) = self.refusal()
        {
            return writeln!(out, "    call([call]) --> none[\"{}\"]", Label(&format!("no description: {refusal}")));
        }
        let last = self.layers().len();
        let layer = |at: usize| if at < last { format!("l{at}") } else { "router".to_owned() };
        writeln!(out, "    call([call]) --> {}", layer(0))?;
        for (at, note) in self.layers().iter().enumerate() {
            writeln!(out, "    l{at}[\"{}\"] --> {}", Lines(note), layer(at + 1))?;
        }
        writeln!(out, "    router{{{{router}}}}")?;
        for (number, tool) in self.tools().iter().enumerate() {
            write!(out, "    router --> ")?;
            for (at, note) in tool.layers.iter().enumerate() {
                write!(out, "t{number}l{at}[\"{}\"] --> ", Lines(note))?;
            }
            writeln!(out, "t{number}([\"{}\"])", Label(tool.name.as_str()))?;
        }
        Ok(())
    }
}

/// A text between the quotes of a label. Nothing in it is taken for Mermaid or HTML.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' | '_' | '-' | '.' | ':' | ',' | '(' | ')' | '/' | '+' | '=' => f.write_char(char),
            _ if char.is_control() => f.write_char(' '),
            _ if char.is_alphanumeric() => f.write_char(char),
            _ => write!(f, "#{};", u32::from(char)),
        })
    }
}

/// A layer and its settings, one a line.
struct Lines<'a>(&'a Note);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Label(self.0.name()))?;
        self.0.settings().try_for_each(|(key, value)| write!(f, "<br/>{}: {}", Label(key), Label(value)))
    }
}
