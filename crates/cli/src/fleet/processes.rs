//! Named processes to measure, so that an error names the process that died.

use super::cost::{Footprint, cpu_time, footprint};
use crate::exit::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

/// Names and ids of processes.
#[derive(Clone, Debug, Default)]
pub struct Processes(Vec<(String, u32)>);

impl Processes {
    /// Takes pairs of name and process id.
    pub fn new(named: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self(named.into_iter().collect())
    }

    /// Adds the children of these processes, their children, and so on, as far as they run now.
    pub fn with_descendants(mut self) -> Result<Self, Failure> {
        let children = children_by_parent()
            .map_err(|error| Failure::failed(format!("can't list the running processes: {error}")))?;
        let mut known: BTreeSet<u32> = self.0.iter().map(|&(_, id)| id).collect();
        let mut next = 0;
        while let Some(&(_, parent)) = self.0.get(next) {
            let born = children.get(&parent).into_iter().flatten().filter(|&&id| known.insert(id));
            let named: Vec<_> = born.map(|&id| (format!("process {id}, a child of {parent},"), id)).collect();
            self.0.extend(named);
            next += 1;
        }
        Ok(self)
    }

    /// Ids of the processes, in their order.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|&(_, id)| id)
    }

    /// Number of processes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the processor time of each process so far, or an error if one has died.
    pub fn cpu_times(&self) -> Result<Vec<Duration>, Failure> {
        self.of_each(cpu_time)
    }

    /// Returns the memory and threads of each process now, or an error if one has died.
    pub fn footprints(&self) -> Result<Vec<Footprint>, Failure> {
        self.of_each(footprint)
    }

    fn of_each<T>(&self, measure: impl Fn(u32) -> io::Result<T>) -> Result<Vec<T>, Failure> {
        let died = |name: &str, error: io::Error| Failure::failed(format!("{name} died: {error}"));
        self.0.iter().map(|(name, id)| measure(*id).map_err(|error| died(name, error))).collect()
    }
}

/// The children of every running process.
fn children_by_parent() -> io::Result<BTreeMap<u32, Vec<u32>>> {
    let mut children = BTreeMap::<u32, Vec<u32>>::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may end between the two reads.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        if let Some(parent) = parent_in(&stat) {
            children.entry(parent).or_default().push(id);
        }
    }
    Ok(children)
}

/// Reads the parent's id from a line of `/proc/PID/stat`: the second field after the name, which is in parentheses and may
/// contain any character.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn parent_is_read_behind_any_name() {
        assert_eq!(parent_in("7 (treefold) S 3 7 7 0"), Some(3));
        assert_eq!(parent_in("7 (a) b 9) R 4 7 7 0"), Some(4));
        assert_eq!(parent_in("7 (treefold"), None);
    }

    #[test]
    fn descendants_are_added_once_and_other_processes_are_not() {
        let script = "sleep 600 & echo $!; wait";
        let mut parent = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = io::BufReader::new(parent.stdout.take().unwrap());
        io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let found = Processes::new([("shell".to_owned(), parent.id())]).with_descendants().unwrap();
        let times = found.cpu_times();
        // SAFETY: kill touches no memory. The child belongs to this test, and its parent still waits for it.
        assert_eq!(unsafe { libc::kill(child.cast_signed(), libc::SIGKILL) }, 0);
        parent.wait().unwrap();
        let ids: Vec<u32> = found.0.iter().map(|&(_, id)| id).collect();
        assert_eq!((ids, found.len()), (vec![parent.id(), child], 2));
        assert_eq!(times.unwrap().len(), 2);
    }
}
