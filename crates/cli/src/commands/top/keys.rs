//! The keys and their actions.

use super::model::{Action, Sort};
use crate::screen::keys::{Key, Pressed};
use ratatui::crossterm::event::KeyCode;

/// The keys.
pub(crate) const KEYS: [Key; 6] = [
    Key { keys: "q", name: "quit", does: "quit; so does Ctrl-C" },
    Key { keys: "h", name: "help", does: "show or hide this help; so does ?" },
    Key { keys: "p", name: "pause", does: "stop looking: a paused top costs the cluster nothing" },
    Key { keys: "c m n", name: "sort", does: "sort by processors, by lack of memory, by traffic" },
    Key { keys: "↑ ↓", name: "host", does: "choose a host and show its processes; Esc ends the choice" },
    Key { keys: "+ -", name: "interval", does: "longer or shorter interval" },
];

/// The action; `None` if there is none.
pub(crate) fn action(pressed: Pressed) -> Option<Action> {
    pressed.action(Action::Quit, Action::Redraw, of_key)
}

fn of_key(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Char('q' | 'Q') => Action::Quit,
        KeyCode::Char('p' | ' ') => Action::Pause,
        KeyCode::Char('c') => Action::Sort(Sort::Cpu),
        KeyCode::Char('m') => Action::Sort(Sort::Memory),
        KeyCode::Char('n') => Action::Sort(Sort::Network),
        KeyCode::Down | KeyCode::Char('j') => Action::Next,
        KeyCode::Up | KeyCode::Char('k') => Action::Previous,
        KeyCode::Esc => Action::Deselect,
        KeyCode::Char('+' | '=') => Action::Slower,
        KeyCode::Char('-') => Action::Faster,
        KeyCode::Char('h' | '?') | KeyCode::F(1) => Action::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_shown_does_something() {
        for Key { keys, .. } in KEYS {
            for key in keys.split(' ') {
                let code = match key {
                    "↑" => KeyCode::Up,
                    "↓" => KeyCode::Down,
                    key => KeyCode::Char(key.chars().next().unwrap()),
                };
                assert!(action(Pressed::Key(code)).is_some(), "{key}");
            }
        }
    }
}
