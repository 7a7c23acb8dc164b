//! Tables with columns aligned by visible width, not by bytes.

use super::safe;
use super::style::Style;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A table that is filled row by row.
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

/// Space between two columns.
const GAP: &str = "  ";

impl Table {
    /// Makes a table of these columns.
    ///
    /// A column whose cells are all empty is not printed.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        let columns = columns.iter().map(|&(heading, align)| (heading.to_owned(), align));
        Self { columns: columns.collect(), rows: Vec::new() }
    }

    /// Adds a column.
    ///
    /// Must be called before rows are added.
    pub fn with_column(mut self, heading: impl Into<String>, align: Align) -> Self {
        assert!(self.rows.is_empty(), "invariant: columns come before rows");
        self.columns.push((heading.into(), align));
        self
    }

    /// Adds a row with a cell for each column.
    ///
    /// Cells must be plain text, because colour codes would count as width. Line ends and other control characters in them
    /// are escaped.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "invariant: a row has a cell for each column");
        self.rows.push(cells.into_iter().map(|cell| safe::line(&cell).into_owned()).collect());
    }

    /// Formats the table with its heading, without a newline at the end.
    pub fn render(&self, style: Style) -> String {
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|&at| self.rows.iter().any(|row| !row[at].is_empty())).collect();
        let width_of = |at: usize| {
            let cells = self.rows.iter().map(|row| seen_width(&row[at]));
            cells.chain([seen_width(&self.columns[at].0)]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = shown.iter().map(|&at| width_of(at)).collect();
        let line = |cell_of: &dyn Fn(usize) -> String| {
            let cells = shown.iter().zip(&widths).map(|(&at, &width)| {
                let cell = cell_of(at);
                let pad = " ".repeat(width - seen_width(&cell));
                match self.columns[at].1 {
                    Align::Left => cell + &pad,
                    Align::Right => pad + &cell,
                }
            });
            cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
        };
        let heading = style.dim(line(&|at| self.columns[at].0.clone()));
        let rows = self.rows.iter().map(|row| line(&|at| row[at].clone()));
        std::iter::once(heading).chain(rows).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the visible width of a text.
///
/// All text in these tables (addresses, names, box drawing) has one column per character.
fn seen_width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_in_its_cell() {
        let mut table = Table::new(&[("service", Align::Left), ("held", Align::Right)]);
        table.row(vec!["a\n\u{1b}[2J".into(), "1".into()]);
        assert_eq!(table.render(Style::PLAIN), "service       held\na\\n\\u{1b}[2J     1");
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_omitted() {
        let mut table = Table::new(&[("node", Align::Left), ("rack", Align::Left), ("load", Align::Right)]);
        table.row(vec!["├─ a".into(), String::new(), "12".into()]);
        table.row(vec!["longer name".into(), String::new(), "3".into()]);
        assert_eq!(table.render(Style::PLAIN), "node         load\n├─ a           12\nlonger name     3");
    }
}
