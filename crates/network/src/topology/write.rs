//! Writes topologies as text: one statement for each process with children, parents before their children.
//!
//! The terse form writes neighbours as ranges. The plain form names every process, and MRNet can read it.
//! Both forms parse to the same topology, with the children in the same order.

use super::runs::runs_of;
use super::{Process, Topology};
use std::fmt;

/// The most columns of a line of children, unless a single name is longer.
const LINE_COLUMNS: usize = 100;

/// The notation of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// Neighbours as ranges.
    #[default]
    Terse,
    /// Each process by its name.
    Plain,
}

/// Writes a topology file.
pub fn to_text(topology: &Topology, form: Form) -> String {
    let row = topology.processes();
    if row.len() == 1 {
        return format!("{} ;\n", row[0]);
    }
    let mut text = String::new();
    for (at, process) in row.iter().enumerate().filter(|(_, process)| process.size > 1) {
        let children = topology.children_of(at).map(|child| &row[child]);
        write_statement(&mut text, process, children, form);
    }
    text
}

fn write_statement<'a>(
    text: &mut String,
    parent: &Process,
    children: impl Iterator<Item = &'a Process>,
    form: Form,
) {
    let names: Vec<String> = match form {
        Form::Terse => runs_of(children).into_iter().map(|run| run.text).collect(),
        Form::Plain => children.map(Process::name).collect(),
    };
    let head = format!("{parent} =>");
    let mut columns = head.len();
    text.push_str(&head);
    for name in names {
        if columns + 1 + name.len() + 2 > LINE_COLUMNS {
            text.push_str("\n ");
            columns = 1;
        }
        columns += 1 + name.len();
        text.push(' ');
        text.push_str(&name);
    }
    text.push_str(" ;\n");
}

/// Writes the terse form.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_text(self, Form::Terse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::tests::topologies;
    use proptest::prelude::*;

    #[test]
    fn parents_come_before_their_children() {
        let text = "b:0 => d:0 d:1; a:0 => b:0 c:0;";
        let topology: Topology = text.parse().unwrap();
        assert_eq!(topology.to_string(), "a:0 => b:0 c:0 ;\nb:0 => d:[0-1] ;\n");
        assert_eq!(to_text(&topology, Form::Plain), "a:0 => b:0 c:0 ;\nb:0 => d:0 d:1 ;\n");
    }

    #[test]
    fn one_process_alone_is_a_statement() {
        assert_eq!("a:3;".parse::<Topology>().unwrap().to_string(), "a:3 ;\n");
    }

    #[test]
    fn long_lines_are_broken_between_names() {
        let topology: Topology = "front-end:0 => node[01-40]:0 ;".parse().unwrap();
        let plain = to_text(&topology, Form::Plain);
        assert!(plain.lines().all(|line| line.len() <= LINE_COLUMNS), "{plain}");
        assert!(plain.lines().skip(1).all(|line| line.starts_with("  node")), "{plain}");
        assert_eq!(plain.parse(), Ok(topology));
    }

    proptest! {
        #[test]
        fn written_topologies_parse_to_the_same_topology(topology in topologies()) {
            for form in [Form::Terse, Form::Plain] {
                prop_assert_eq!(to_text(&topology, form).parse(), Ok(topology.clone()));
            }
        }
    }
}
