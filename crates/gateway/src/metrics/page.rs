//! Prometheus' text format.

use std::fmt::{Display, Write};

/// A page in Prometheus' text format.
#[derive(Default)]
pub(super) struct Page(String);

impl Page {
    /// Begins a family. Its lines follow.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// A family of one figure without labels.
    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, figure: impl Display) {
        self.family(name, kind, help);
        self.line(format_args!("{name} {figure}"));
    }

    /// A family with one figure for each value of a label.
    pub(super) fn labelled<K: Display, F: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        label: &str,
        figures: impl IntoIterator<Item = (K, F)>,
    ) {
        self.family(name, kind, help);
        for (value, figure) in figures {
            self.line(format_args!("{name}{{{label}=\"{}\"}} {figure}", escaped(&value.to_string())));
        }
    }

    pub(super) fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("invariant: writing to a String cannot fail");
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// A label's value, escaped as the format demands.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        let mut page = Page::default();
        page.labelled("held", "gauge", "Held.", "service", [("a\"b\\c\nd", 1)]);
        assert_eq!(
            page.into_text(),
            "# HELP held Held.\n# TYPE held gauge\nheld{service=\"a\\\"b\\\\c\\nd\"} 1\n"
        );
    }
}
