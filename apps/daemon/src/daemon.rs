//! One daemon: its identity, and its answers.
//!
//! Most daemons are of class 0. One in [`ODD_ONE_IN`] is of another class: its host's system, the supported
//! metrics and the build of the watched program differ. Host names and process ids differ for every daemon.

use crate::draw::{Draw, Purpose};
use crate::executable::Executable;
use crate::metrics;
use crate::request::Request;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use treefold_operators::packet::Row;

/// Number of classes of daemons.
pub const CLASSES: u32 = 4;

/// One in this many daemons is of another class than 0.
pub const ODD_ONE_IN: u64 = 10;

/// One daemon, emulated.
#[derive(Clone, Debug)]
pub struct Daemon {
    endpoint: u32,
    class: u32,
    process: u64,
    program: Arc<Executable>,
    /// The metric definitions that it was last sent.
    definitions: Vec<String>,
}

impl Daemon {
    /// The programs that the daemons of a seed watch, by class.
    pub fn programs(seed: u64) -> Vec<Arc<Executable>> {
        (0..CLASSES).map(|class| Arc::new(Executable::of_build(seed, class))).collect()
    }

    /// The daemon with this number among those of a seed; `programs` comes from
    /// [`programs`](Self::programs).
    pub fn new(seed: u64, endpoint: u32, programs: &[Arc<Executable>]) -> Self {
        let mut draw = Draw::new(seed, Purpose::Class, u64::from(endpoint));
        let is_odd = draw.below(ODD_ONE_IN) == 0;
        let class = if is_odd { 1 + draw.below(u64::from(CLASSES) - 1) as u32 } else { 0 };
        let process = 300 + Draw::new(seed, Purpose::Process, u64::from(endpoint)).below(4_000_000);
        let program = Arc::clone(&programs[class as usize]);
        Self { endpoint, class, process, program, definitions: Vec::new() }
    }

    /// Its class, from 0.
    pub fn class(&self) -> u32 {
        self.class
    }

    fn host(&self) -> String {
        format!("node{:05}.cluster", self.endpoint)
    }

    fn command_line(&self) -> String {
        format!("smg2000 -n 60 60 60 -P 8 8 8 -rank {}", self.endpoint)
    }

    /// Answers a request.
    pub fn answer(&mut self, request: Request) -> Bytes {
        let (endpoint, process) = (u64::from(self.endpoint), self.process);
        let row = Row::new().u64(endpoint);
        match request {
            Request::Itself => row
                .str(&self.host())
                .str(&format!("Linux 6.{} x86_64", self.class))
                .u64(8)
                .packet()
                .into_bytes(),
            Request::MetricClass { definitions } => {
                self.definitions = definitions;
                checksum(&self.metrics())
            }
            Request::Metrics => self.metrics(),
            Request::Process => row.u64(process).str(&self.command_line()).u64(1).packet().into_bytes(),
            Request::Machine => row.str(&self.host()).u64(process).u64(process + 1).packet().into_bytes(),
            Request::CodeClass => checksum(&self.program.code_report()),
            Request::Code => self.program.code_report(),
            Request::CallGraphClass => checksum(&self.program.call_graph_report()),
            Request::CallGraph => self.program.call_graph_report(),
            Request::Done => Row::new().u64(1).packet().into_bytes(),
        }
    }

    fn metrics(&self) -> Bytes {
        metrics::report(&self.definitions, self.class)
    }
}

/// The checksum that represents a report: its SHA-256, in a packet.
pub fn checksum(report: &[u8]) -> Bytes {
    Row::new().blob(&Sha256::digest(report)).packet().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn daemons() -> Vec<Daemon> {
        let programs = Daemon::programs(7);
        (0..200).map(|endpoint| Daemon::new(7, endpoint, &programs)).collect()
    }

    fn answers(request: &Request) -> BTreeSet<Bytes> {
        daemons().iter_mut().map(|daemon| daemon.answer(request.clone())).collect()
    }

    #[test]
    fn most_daemons_are_of_class_0_and_every_class_occurs() {
        let mut sizes = [0; CLASSES as usize];
        daemons().iter().for_each(|daemon| sizes[daemon.class() as usize] += 1);
        assert!(sizes[0] > 150 && sizes.iter().all(|&size| size > 0), "{sizes:?}");
    }

    #[test]
    fn identities_differ_and_programs_fall_into_classes() {
        for request in [Request::Itself, Request::Process, Request::Machine] {
            assert_eq!(answers(&request).len(), 200);
        }
        let classes = CLASSES as usize;
        for request in [Request::CodeClass, Request::Code, Request::CallGraphClass, Request::CallGraph] {
            assert_eq!(answers(&request).len(), classes, "{request:?}");
        }
        let definitions = metrics::definitions();
        assert_eq!(answers(&Request::MetricClass { definitions }).len(), classes);
        assert_eq!(answers(&Request::Done).len(), 1);
    }

    #[test]
    fn checksum_matches_the_following_report() {
        let mut daemon = daemons().remove(0);
        let class = daemon.answer(Request::MetricClass { definitions: metrics::definitions() });
        assert_eq!(class, checksum(&daemon.answer(Request::Metrics)));
        assert_eq!(daemon.answer(Request::CodeClass), checksum(&daemon.answer(Request::Code)));
    }
}
