//! Input lines of a demo, from the command line, a terminal, a pipe, or the samples.
//!
//! Reading blocks, so it happens on a separate thread, one line at a time: the next prompt appears only when
//! the last answer is printed. If standard input ends before it gave a line (as on a build server), the
//! samples are answered, so that the demo shows something and ends. If standard input stays open but gives no
//! line for [`PATIENCE`], the samples are answered as well, and then the demo continues to wait for lines.

use crate::output::print;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal};
use std::time::Duration;
use tokio::sync::mpsc;

/// Time for which a pipe may be silent before the samples are answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// Input lines, one after another.
pub(super) struct Lines {
    /// Lines that are available without reading.
    ready: VecDeque<String>,
    /// The reading thread; it reads one line on request.
    reader: Option<Reader>,
    /// Lines to take if the reader gives none.
    samples: VecDeque<String>,
    interactive: bool,
}

struct Reader {
    ask: std::sync::mpsc::Sender<()>,
    lines: mpsc::Receiver<Option<String>>,
    asked: bool,
}

impl Lines {
    /// Takes exactly these lines.
    pub(super) fn given(lines: &[String]) -> Self {
        Self {
            ready: lines.iter().cloned().collect(),
            reader: None,
            samples: VecDeque::new(),
            interactive: false,
        }
    }

    /// Reads standard input; if it gives no line, takes `samples`.
    pub(super) fn of_stdin(samples: &[&str]) -> Self {
        let interactive = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let samples =
            if interactive { VecDeque::new() } else { samples.iter().map(ToString::to_string).collect() };
        if interactive {
            print("Type a query, or :help. (`treefold demo --flights` shows a live feed on mirrors.)");
        }
        Self { ready: VecDeque::new(), reader: Some(Reader::start(interactive)), samples, interactive }
    }

    /// True if standard input and output are terminals.
    pub(super) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Returns the next line; `None` if there are no more.
    pub(super) async fn next(&mut self) -> Option<String> {
        if let Some(line) = self.ready.pop_front() {
            return Some(line);
        }
        let reader = self.reader.as_mut()?;
        if self.samples.is_empty() {
            return reader.next().await;
        }
        let said = tokio::time::timeout(PATIENCE, reader.next()).await;
        let samples = std::mem::take(&mut self.samples);
        match said {
            Ok(Some(line)) => Some(line),
            nothing => {
                if nothing.is_ok() {
                    self.reader = None;
                }
                self.ready = samples;
                self.ready.pop_front()
            }
        }
    }
}

impl Reader {
    fn start(interactive: bool) -> Self {
        let (ask, asked) = std::sync::mpsc::channel();
        let (say, lines) = mpsc::channel(1);
        // The thread ends with the process, because a blocking read can't be cancelled.
        std::thread::spawn(move || {
            let mut source = Source::open(interactive);
            while asked.recv().is_ok() {
                let line = source.read();
                let ended = line.is_none();
                if say.blocking_send(line).is_err() || ended {
                    return;
                }
            }
        });
        Self { ask, lines, asked: false }
    }

    /// Safe to drop half-way: the next caller receives the line that was requested before.
    async fn next(&mut self) -> Option<String> {
        if !self.asked {
            self.asked = self.ask.send(()).is_ok();
        }
        let line = self.lines.recv().await.flatten();
        self.asked = false;
        line
    }
}

enum Source {
    Prompt(Box<DefaultEditor>),
    Plain,
}

impl Source {
    fn open(interactive: bool) -> Self {
        // If a terminal can't be set up for editing, its lines are read plainly.
        match interactive.then(DefaultEditor::new) {
            Some(Ok(editor)) => Self::Prompt(Box::new(editor)),
            _ => Self::Plain,
        }
    }

    fn read(&mut self) -> Option<String> {
        match self {
            Self::Prompt(editor) => loop {
                match editor.readline("treefold> ") {
                    Ok(line) => {
                        // If the line can't be added to the history, only the history is incomplete.
                        let _ = editor.add_history_entry(&line);
                        return Some(line);
                    }
                    // Ctrl-C discards the typed line, as in a shell.
                    Err(ReadlineError::Interrupted) => {}
                    Err(_) => return None,
                }
            },
            Self::Plain => {
                let mut line = Vec::new();
                match std::io::stdin().lock().read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => None,
                    Ok(_) => Some(String::from_utf8_lossy(&line).into_owned()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn given_lines_come_in_order_and_end() {
        let mut lines = Lines::given(&["a".into(), "b".into()]);
        assert_eq!(lines.next().await.as_deref(), Some("a"));
        assert_eq!(lines.next().await.as_deref(), Some("b"));
        assert_eq!(lines.next().await, None);
        assert!(!lines.is_interactive());
    }
}
