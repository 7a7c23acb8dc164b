//! The keys of a command: their actions, their line at the foot of the screen, and the help.

use super::Palette;
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

/// Columns of the help, with its border.
const HELP_WIDTH: u16 = 78;

/// Keys, separated by spaces, with one action.
pub(crate) struct Key {
    /// The keys, as they are shown.
    pub(crate) keys: &'static str,
    /// Their name in the foot line.
    pub(crate) name: &'static str,
    /// Their description in the help.
    pub(crate) does: &'static str,
}

/// The event of a terminal that concerns a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressed {
    /// A key.
    Key(KeyCode),
    /// The user wants to end the command: Ctrl-C or Ctrl-D.
    Quit,
    /// The terminal has another size.
    Resized,
}

impl Pressed {
    /// The action of a command; `None` if a key has none.
    pub(crate) fn action<A>(
        self,
        quit: A,
        redraw: A,
        of_key: impl FnOnce(KeyCode) -> Option<A>,
    ) -> Option<A> {
        match self {
            Self::Key(code) => of_key(code),
            Self::Quit => Some(quit),
            Self::Resized => Some(redraw),
        }
    }
}

/// Reads an event of the terminal; `None` if it concerns no command.
pub(crate) fn pressed(event: &Event) -> Option<Pressed> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => None,
        // In raw mode the terminal does not turn keys into signals.
        Event::Key(key) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Pressed::Quit)
        }
        Event::Key(key) => Some(Pressed::Key(key.code)),
        Event::Resize(..) => Some(Pressed::Resized),
        _ => None,
    }
}

/// The foot line. It has the keys that fit into the width, the first ones first.
pub(crate) fn line(keys: &[Key], width: u16, palette: Palette) -> Line<'static> {
    let mut room = usize::from(width);
    let mut spans = Vec::with_capacity(2 * keys.len());
    for key in keys {
        let before = if spans.is_empty() { "" } else { "  " };
        let next = [
            Span::raw(before),
            Span::styled(key.keys, palette.strong()),
            Span::raw(format!(" {}", key.name)),
        ];
        let Some(left) = room.checked_sub(next.iter().map(Span::width).sum()) else { break };
        room = left;
        spans.extend(next);
    }
    Line::from(spans)
}

/// Draws the help over everything else: the keys, and the meaning of the words.
pub(crate) fn help(frame: &mut Frame<'_>, keys: &[Key], words: &[&'static str], palette: Palette) {
    let key = |key: &Key| {
        Line::from(vec![Span::styled(format!("{:>6}  ", key.keys), palette.strong()), Span::raw(key.does)])
    };
    let mut lines: Vec<Line<'_>> = keys.iter().map(key).collect();
    lines.push(Line::default());
    lines.extend(words.iter().map(|word| Line::from(*word)));
    let area = frame.area();
    let (width, height) = (HELP_WIDTH.min(area.width), (lines.len() as u16 + 2).min(area.height));
    let popup =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, popup);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" help ")), popup);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyEvent;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Pressed> {
        pressed(&Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn control_c_and_control_d_quit() {
        for quits in ['c', 'd'] {
            assert_eq!(key(KeyCode::Char(quits), KeyModifiers::CONTROL), Some(Pressed::Quit));
        }
        assert_eq!(key(KeyCode::Char('z'), KeyModifiers::CONTROL), None);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), Some(Pressed::Key(KeyCode::Char('c'))));
    }

    #[test]
    fn key_release_is_ignored_and_resize_is_told() {
        let released = KeyEvent::new_with_kind(KeyCode::Char('p'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(pressed(&Event::Key(released)), None);
        assert_eq!(pressed(&Event::Resize(80, 24)), Some(Pressed::Resized));
    }

    #[test]
    fn line_has_the_keys_that_fit() {
        let keys = [
            Key { keys: "q", name: "quit", does: "" },
            Key { keys: "↑ ↓", name: "scroll", does: "" },
            Key { keys: "p", name: "pause", does: "" },
        ];
        let text = |width| line(&keys, width, Palette::PLAIN).to_string();
        assert_eq!(text(27), "q quit  ↑ ↓ scroll  p pause");
        assert_eq!(text(26), "q quit  ↑ ↓ scroll");
        assert_eq!(text(5), "");
    }
}
