//! Measures the cost of sampling and folding hosts: `cargo bench -p treefold-hosts`.
//!
//! Every host pays for a sample in each interval, and the tree pays for a fold. Figures are microseconds
//! per operation, the minimum of several rounds. A sample's cost grows with the number of processes, so the
//! benchmark starts sleeping processes until there are at least 200 processes.

use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use treefold_hosts::{Host, Hosts, Sample, Sampler, TOP_DEFAULT};
use treefold_operators::{Body, Merge};

const ROUNDS: usize = 9;
const PROCESSES: u64 = 200;

fn report(what: &str, per_round: u32, mut operation: impl FnMut()) {
    let round = |operation: &mut dyn FnMut()| {
        let from = Instant::now();
        (0..per_round).for_each(|_| operation());
        from.elapsed() / per_round
    };
    let least = (0..ROUNDS).map(|_| round(&mut operation)).min().unwrap_or_default();
    println!("{what:<44} {:>9.1} µs", least.as_secs_f64() * 1e6);
}

/// A process that sleeps, ended when dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn();
        Self(child.expect("a sleeper can be started"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // A sleeper that has already ended cannot be killed, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn samples(sampler: &mut Sampler) -> (Sample, Sample) {
    std::thread::sleep(Duration::from_millis(200));
    let first = sampler.sample().expect("this host can be measured");
    let second = Sample { host: Host::new(2, "web-2.example.org"), ..first.clone() };
    (first, second)
}

fn main() {
    let mut sampler = Sampler::new(Host::new(1, "web-1.example.org")).expect("this host can be measured");
    let running = sampler.sample().expect("this host can be measured").figures.processes;
    let sleepers: Vec<Sleeper> = (running..PROCESSES).map(|_| Sleeper::start()).collect();
    let (first, second) = samples(&mut sampler);
    let processes = first.figures.processes;
    report(&format!("sample of a host with {processes} processes"), 50, || {
        black_box(sampler.sample().expect("this host can be measured"));
    });
    drop(sleepers);
    let lift = |sample: &Sample| Hosts::of(sample, TOP_DEFAULT).expect("a sample can be lifted");
    report("lift of a sample", 1000, || {
        black_box(lift(&first));
    });
    let (a, b) = (lift(&first), lift(&second));
    let (a_bytes, b_bytes) =
        (a.encode().expect("a partial can be written"), b.encode().expect("and so can this"));
    println!("{:<44} {:>9} bytes", "sample", first.encode().expect("a sample can be written").len());
    println!("{:<44} {:>9} bytes", "partial of one host", a_bytes.len());
    report("fold of two partials, bytes to bytes", 1000, || {
        let mut folded = Hosts::decode(&a_bytes).expect("a partial can be read");
        folded.merge(Hosts::decode(&b_bytes).expect("a partial can be read")).expect("and merged");
        black_box(folded.encode().expect("and written"));
    });
    let many =
        (0..10_000).map(|id| lift(&Sample { host: Host::new(id, "web-1.example.org"), ..first.clone() }));
    let folded = many.reduce(|mut folded, one| {
        folded.merge(one).expect("partials can be merged");
        folded
    });
    let bytes = folded.expect("there are many").encode().expect("a partial can be written").len();
    println!("{:<44} {bytes:>9} bytes", "partial of 10,000 hosts");
}
