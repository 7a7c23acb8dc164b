//! The lower end of a stream: a node with one endpoint that counts.

use crate::peer::Counter;
use crate::trial::Problem;
use clap::Args;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use treefold::endpoint::{
    Acceptor, Arrival, Endpoint, EndpointKind, Missed, Opening, Outlet, Packet, Took, accept,
};
use treefold::{ClusterOptions, Limits, Node, Service};

/// The service whose partitions are the endpoints.
pub(crate) const SERVICE: &str = "down";

#[derive(Debug, Args)]
pub(crate) struct EndpointArgs {
    #[arg(long)]
    join: String,
    #[arg(long)]
    number: u32,
    #[arg(long)]
    of: u32,
    #[arg(long)]
    window_bytes: u64,
    /// Time for each packet, in microseconds
    #[arg(long, default_value_t = 0)]
    slow_us: u64,
    /// Take packets in a task of its own instead of on the node's loop
    #[arg(long)]
    in_task: bool,
}

/// The limits of all nodes of a trial.
pub(crate) fn limits(window_bytes: u64) -> ClusterOptions {
    let stream_window_bytes = usize::try_from(window_bytes).unwrap_or(usize::MAX);
    ClusterOptions::new("bench-down").limits(Limits { stream_window_bytes, ..Limits::DEFAULT })
}

pub(crate) fn run(args: &EndpointArgs) -> Result<(), Problem> {
    let counter = Arc::new(Counter::default());
    if args.slow_us > 0 || args.in_task {
        let (kind, acceptor) = accept();
        let (counting, pause) = (Arc::clone(&counter), Duration::from_micros(args.slow_us));
        std::thread::spawn(move || take_in_task(&acceptor, &counting, pause));
        serve(args, kind, &counter)
    } else {
        let counting = Arc::clone(&counter);
        serve(args, move |_: &Opening| Counting(Arc::clone(&counting)), &counter)
    }
}

fn serve(args: &EndpointArgs, kind: impl EndpointKind, counter: &Counter) -> Result<(), Problem> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let service = Service::new(SERVICE).total(args.of).endpoints(args.number..args.number + 1, kind);
    let builder = Node::builder().cluster(limits(args.window_bytes)).join([&args.join]).service(service);
    let _node = runtime.block_on(builder.start())?;
    counter.serve()
}

struct Counting(Arc<Counter>);

impl Endpoint for Counting {
    fn packet(&mut self, _: &mut Outlet<'_>, packet: Packet) -> Took {
        self.0.note(std::iter::once(due_ns(&packet.payload)));
        Took::Now
    }

    fn missed(&mut self, _: &mut Outlet<'_>, _: Missed) {
        self.0.note_gap();
    }
}

/// The time at which a packet was due.
pub(crate) fn due_ns(payload: &[u8]) -> u64 {
    payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn take_in_task(acceptor: &Acceptor, counter: &Counter, pause: Duration) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("invariant: the system has file descriptors for a runtime");
    runtime.block_on(async {
        while let Some(mut stream) = acceptor.accept().await {
            while let Some(arrival) = stream.next().await {
                let Arrival::Packet(packet) = arrival else {
                    counter.note_gap();
                    continue;
                };
                counter.note(std::iter::once(due_ns(&packet.payload)));
                if !pause.is_zero() {
                    std::thread::sleep(pause);
                }
            }
        }
    });
}
