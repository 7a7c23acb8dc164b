//! Styles of pictures.
//!
//! Colours are optional; bold, dim and inverted text is always used, since it is no colour.

use crate::output::style;
use ratatui::style::{Color, Modifier, Style};

/// Share, in permille, from which a figure is a warning.
const HIGH_PERMILLE: u64 = 750;
/// Share, in permille, from which a figure is bad.
const FULL_PERMILLE: u64 = 900;

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    colour: bool,
}

impl Palette {
    /// Always coloured.
    #[cfg(test)]
    pub(crate) const COLOURED: Self = Self { colour: true };

    /// Never coloured.
    pub(crate) const PLAIN: Self = Self { colour: false };

    /// Coloured if standard output is.
    pub(crate) fn of_stdout() -> Self {
        Self { colour: style::Style::of_stdout().is_on() }
    }

    pub(crate) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    pub(crate) fn warning(self) -> Style {
        self.coloured(Color::Yellow)
    }

    pub(crate) fn bad(self) -> Style {
        self.coloured(Color::Red)
    }

    pub(crate) fn line(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// Returns the style of a share, by its size.
    pub(crate) fn share(self, permille: u64) -> Style {
        match permille {
            FULL_PERMILLE.. => self.bad(),
            HIGH_PERMILLE.. => self.warning(),
            _ => Style::new(),
        }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}
