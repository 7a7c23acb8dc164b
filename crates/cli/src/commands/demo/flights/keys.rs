//! The keys and their actions.

use super::MIRRORS;
use super::board::Action;
use super::news::Part;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Rows that a page scrolls.
const PAGE: isize = 10;

/// Keys, their names in the foot line, and their descriptions in the help.
pub(super) const KEYS: [(&str, &str, &str); 9] = [
    ("o", "origin", "kill the origin; it returns after 2 s, or at once with o"),
    ("0 1 2", "mirror", "kill a mirror (kill -9), or start it again"),
    ("Tab", "select", "select a process"),
    ("p", "pause", "stop the selected process (SIGSTOP), or let it go on"),
    ("j", "storm", "let 200 readers join at once"),
    ("r", "rules", "switch the rules to their loaded mode, which sends fewer positions, or back"),
    ("↑ ↓", "scroll", "scroll the flights; so do PgUp and PgDn"),
    ("?", "help", "show or hide this help"),
    ("q", "quit", "end everything; so does Ctrl-C"),
];

/// Returns the action of a terminal's event; `None` if it has none.
pub(super) fn action(event: &Event) -> Option<Action> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
        Event::Resize(..) => Some(Action::Redraw),
        _ => None,
    }
}

fn of_key(key: &KeyEvent) -> Option<Action> {
    // In raw mode the terminal does not turn keys into signals.
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Action::Quit);
    }
    Some(match key.code {
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
        let press = |code| action(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
        assert_eq!(press(KeyCode::Char('o')), Some(Action::Toggle(Part::Origin)));
        assert_eq!(press(KeyCode::Char('2')), Some(Action::Toggle(Part::Mirror(2))));
        assert_eq!(press(KeyCode::Char('3')), None, "there are three mirrors, from 0");
        assert_eq!(press(KeyCode::Char('x')), None);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(&Event::Key(interrupt)), Some(Action::Quit));
    }
}
