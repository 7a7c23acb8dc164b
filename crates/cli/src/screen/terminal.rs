//! Takes the terminal over, and restores it however the program ends.
//!
//! Raw mode and the alternate screen are left when [`Screen`] is dropped, which happens after a normal end,
//! an error, and a panic that unwinds. Ratatui's panic hook leaves them before it prints the message, so that
//! the message can be read. Signals are caught ([`Endings`](crate::endings::Endings)) and lead to a normal end. Only `kill -9` leaves
//! the terminal in raw mode; the command `reset` repairs it.
//!
//! A picture is sent as the difference from the last one, between the marks of a synchronised update.
//! Terminals that support the marks show it at once; others ignore them.

use crate::exit::Failure;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use ratatui::{DefaultTerminal, Frame};
use std::io;
use tokio::sync::mpsc;

/// Largest number of waiting events.
///
/// The terminal buffers further ones.
const EVENTS_WAITING_MAX: usize = 64;

/// The terminal, while this program owns it.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    events: mpsc::Receiver<Event>,
}

impl Screen {
    /// Takes the terminal over.
    pub(crate) fn enter() -> Result<Self, Failure> {
        let terminal = ratatui::try_init().map_err(|error| {
            // It may have failed half-way.
            let _ = ratatui::try_restore();
            Failure::failed(format!("can't take the terminal over: {error}"))
        })?;
        Ok(Self { terminal, events: read_events() })
    }

    /// Draws a picture.
    pub(crate) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        let drawn = execute!(io::stdout(), BeginSynchronizedUpdate)
            .and_then(|()| self.terminal.draw(picture).map(drop))
            .and_then(|()| execute!(io::stdout(), EndSynchronizedUpdate));
        drawn.map_err(|error| Failure::failed(format!("can't write to the terminal: {error}")))
    }

    /// Returns the next event; `None` if the terminal is gone.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Reads events on a separate thread, which blocks in a read until the process ends.
fn read_events() -> mpsc::Receiver<Event> {
    let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    events
}
