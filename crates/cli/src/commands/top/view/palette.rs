//! Colour where somebody wants it; weight and inversion everywhere, since they are no colours.

use crate::output::style;
use ratatui::style::{Color, Modifier, Style};

/// Above this a share is worth a look, in permille.
const HIGH_PERMILLE: u64 = 750;
/// Above this it is trouble.
const FULL_PERMILLE: u64 = 900;

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    colour: bool,
}

impl Palette {
    /// Colour, whoever sees it.
    #[cfg(test)]
    pub(crate) const COLOURED: Self = Self { colour: true };

    /// No colour.
    pub(crate) const PLAIN: Self = Self { colour: false };

    /// As standard output wants it.
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

    /// A share by how full it is.
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
