//! The keys and their actions.

use super::MIRRORS;
use super::board::Action;
use super::news::Part;
use crate::screen::keys::{Key, Pressed};
use ratatui::crossterm::event::KeyCode;

/// Rows that a page scrolls.
const PAGE: isize = 10;

/// The keys.
pub(super) const KEYS: [Key; 9] = [
    Key { keys: "q", name: "quit", does: "end everything; so does Ctrl-C" },
    Key { keys: "?", name: "help", does: "show or hide this help" },
    Key { keys: "o", name: "origin", does: "kill the origin; it returns after 2 s, or at once with o" },
    Key { keys: "0 1 2", name: "mirror", does: "kill a mirror (kill -9), or start it again" },
    Key { keys: "Tab", name: "select", does: "select a process" },
    Key { keys: "p", name: "pause", does: "stop the selected process (SIGSTOP), or let it go on" },
    Key { keys: "j", name: "storm", does: "let 200 readers join at once" },
    Key {
        keys: "r",
        name: "rules",
        does: "switch the rules to loaded mode, which sends fewer positions, or back",
    },
    Key { keys: "↑ ↓", name: "scroll", does: "scroll the flights; so do PgUp and PgDn" },
];

/// The action; `None` if there is none.
pub(super) fn action(pressed: Pressed) -> Option<Action> {
    pressed.action(Action::Quit, Action::Redraw, of_key)
}

fn of_key(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Char('q' | 'Q') => Action::Quit,
        KeyCode::Char('o' | 'O') => Action::Toggle(Part::Origin),
        KeyCode::Char(digit) if digit.to_digit(10).is_some_and(|number| (number as usize) < MIRRORS) => {
            Action::Toggle(Part::Mirror(digit.to_digit(10)? as usize))
        }
        KeyCode::Char('p' | 'P' | ' ') => Action::Pause,
        KeyCode::Char('j' | 'J') => Action::Storm,
        KeyCode::Char('r' | 'R') => Action::Mode,
        KeyCode::Tab => Action::Select,
        KeyCode::Up => Action::Scroll(-1),
        KeyCode::Down => Action::Scroll(1),
        KeyCode::PageUp => Action::Scroll(-PAGE),
        KeyCode::PageDown => Action::Scroll(PAGE),
        KeyCode::Char('?' | 'h' | 'H') => Action::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_kill_the_process_of_their_name() {
        let press = |code| action(Pressed::Key(code));
        assert_eq!(press(KeyCode::Char('o')), Some(Action::Toggle(Part::Origin)));
        assert_eq!(press(KeyCode::Char('2')), Some(Action::Toggle(Part::Mirror(2))));
        assert_eq!(press(KeyCode::Char('3')), None, "there are three mirrors, from 0");
        assert_eq!(press(KeyCode::Char('x')), None);
        assert_eq!(action(Pressed::Quit), Some(Action::Quit));
    }
}
