//! The loop's thread: how it starts, and how its owner stops, stalls and slows it.
//!
//! [`Control`] is the only state, besides channels, that the thread shares with its owner. While stalled, the
//! thread is blocked, as after SIGSTOP, until it may go on. Stopping is immediate: the runtime and its
//! sockets are dropped without a message to any peer.

use super::asks::{Asks, Handle, channels};
use super::complaints::Complaints;
use super::eviction::Held;
use super::joining::Seeds;
use super::keys::Keyring;
use super::meter::Meter;
use super::operators::Operators;
use super::streams::Streams;
use super::{Loop, Machine, Members};
use crate::error::StartError;
use crate::foreign::{Foreign, Sent};
use crate::group_keys::GroupKeys;
use crate::record::Recorder;
use crate::service::Registry;
use crate::transport::Identity;
use crate::workers::{Slowness, Workers};
use std::cell::{Cell, RefCell};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::SendError;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::spawn_local;
use treefold_core::config::NodeConfig;
use treefold_core::id::NodeId;
use treefold_core::membership::card::MemberCard;
use treefold_core::node::Node;
use treefold_core::time::Instant as CoreInstant;

/// Tasks that run before the sockets are polled again; more than a turn usually has.
const TASKS_PER_TURN_MAX: u32 = 256;
/// How long an owner waits for the end of a stopped loop. It ends immediately, unless an operator blocks it.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which a recording is flushed to the system.
const RECORDING_FLUSH_EVERY: Duration = Duration::from_secs(1);

/// The parameters of a loop.
pub(crate) struct Setup {
    pub(crate) config: NodeConfig,
    pub(crate) identity: Identity,
    pub(crate) registry: Registry,
    /// Makes operators of bytes that are sent to this node.
    pub(crate) foreign: Option<Arc<dyn Foreign>>,
    /// Operators of the node's own services, which it gives to nodes that fold.
    pub(crate) modules: Vec<Arc<Sent>>,
    /// `None` for a client, to which no peer can connect.
    pub(crate) listener: Option<std::net::TcpListener>,
    pub(crate) datagrams: std::net::UdpSocket,
    pub(crate) join: Vec<String>,
    /// The loop joins when this message arrives, or immediately if this is `None`. If the sender is dropped,
    /// it never joins.
    pub(crate) may_join: Option<oneshot::Receiver<Welcome>>,
    pub(crate) workers_max: usize,
    pub(crate) thread_name: String,
    pub(crate) record: Option<PathBuf>,
}

/// Permission to join, with the members that a seed knows.
#[derive(Debug)]
pub(crate) struct Welcome {
    /// The cards of the members, and the seed that sent them. `None` if no seed answered.
    pub(crate) known: Option<(NodeId, Vec<Arc<MemberCard>>)>,
    /// Notified after the node has taken the cards.
    pub(crate) taken: oneshot::Sender<()>,
}

/// An owner's control over a loop's thread.
#[derive(Debug, Default)]
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    stalled: bool,
    ended: bool,
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is three flags, which are consistent at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
        self.wake.notify_one();
    }

    /// Ends the loop as soon as it gets the thread.
    pub(crate) fn stop(&self) {
        self.set(|state| state.stop = true);
    }

    /// Stalls the loop's thread, or lets it go on.
    pub(crate) fn stall(&self, stalled: bool) {
        self.set(|state| state.stalled = stalled);
    }

    /// True until the thread has ended.
    pub(crate) fn is_running(&self) -> bool {
        !self.lock().ended
    }

    /// Waits for the thread's end, but not longer than [`STOP_PATIENCE`].
    pub(crate) fn wait_ended(&self) {
        let patience = self.changed.wait_timeout_while(self.lock(), STOP_PATIENCE, |state| !state.ended);
        if patience.is_ok_and(|(state, _)| !state.ended) {
            tracing::warn!("an operator blocks a node's loop; the loop ends when the operator returns");
        }
    }

    /// Returns when the loop must end. Blocks the thread while it is stalled.
    async fn obey(&self) {
        loop {
            {
                let state = self.lock();
                let state = self
                    .changed
                    .wait_while(state, |state| state.stalled && !state.stop)
                    .unwrap_or_else(PoisonError::into_inner);
                if state.stop {
                    return;
                }
            }
            self.wake.notified().await;
        }
    }
}

/// A running loop. Dropping it ends the loop without a message to any peer.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) control: Arc<Control>,
    pub(crate) slowness: Arc<Slowness>,
    pub(crate) handle: Handle,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.control.stop();
        self.control.wait_ended();
    }
}

impl Thread {
    /// Starts a loop on its own thread.
    pub(crate) fn start(setup: Setup) -> Result<Self, StartError> {
        let (members, watched) = watch::channel(Members::new());
        let (handle, asks) = channels(Arc::new(setup.identity.limits.clone()), watched);
        let (control, slowness) = (Arc::new(Control::default()), Slowness::none());
        let ours = Ours {
            handle: handle.clone(),
            control: Arc::clone(&control),
            slowness: Arc::clone(&slowness),
            members,
            asks,
        };
        let (report, started) = std::sync::mpsc::sync_channel(1);
        let name = setup.thread_name.clone();
        std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                let control = Arc::clone(&ours.control);
                let _ended = EndedOnDrop(&control);
                // The owner waits for exactly one report, so it cannot be gone.
                let _ = match runtime() {
                    Ok(runtime) => live(&runtime, setup, ours, &report),
                    Err(error) => report.send(Err(StartError::Loop(error))),
                };
            })
            .map_err(StartError::Loop)?;
        started.recv().unwrap_or_else(|_| {
            Err(StartError::Loop(io::Error::other("the loop's thread died at its start")))
        })?;
        Ok(Self { control, slowness, handle })
    }
}

/// The thread's ends of the shared state.
struct Ours {
    handle: Handle,
    control: Arc<Control>,
    slowness: Arc<Slowness>,
    members: watch::Sender<Members>,
    asks: Asks,
}

type Report = std::sync::mpsc::SyncSender<Result<(), StartError>>;

fn runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread()
        .enable_all()
        .event_interval(TASKS_PER_TURN_MAX)
        .build_local(LocalOptions::default())
}

/// Runs a loop from its start to its end.
fn live(
    runtime: &LocalRuntime,
    setup: Setup,
    ours: Ours,
    report: &Report,
) -> Result<(), SendError<Result<(), StartError>>> {
    runtime.block_on(async {
        let control = Arc::clone(&ours.control);
        match Loop::begin(setup, ours) {
            Ok(node) => {
                report.send(Ok(()))?;
                control.obey().await;
                node.end();
                Ok(())
            }
            Err(error) => report.send(Err(error)),
        }
    })
}

impl Loop {
    /// Creates a loop and starts its tasks.
    fn begin(setup: Setup, ours: Ours) -> Result<Rc<Self>, StartError> {
        let listener = setup.listener.map(TcpListener::from_std).transpose().map_err(StartError::Loop)?;
        let datagrams = UdpSocket::from_std(setup.datagrams).map_err(StartError::Loop)?;
        let recorder = setup.record.map(|path| {
            Recorder::create(&path, &setup.config, CoreInstant::START)
                .map_err(|source| StartError::Record { path: path.display().to_string(), source })
        });
        let recorder = recorder.transpose()?;
        let keys = GroupKeys::new()
            .map_err(|_| StartError::Loop(io::Error::other("the system gives no random bytes")))?;
        let (registry, slowness) = (Arc::new(setup.registry), ours.slowness);
        let inline_cost_max = setup.config.tuning.inline_cost_max;
        let meters = (0..registry.kinds_max()).map(|_| Meter::default()).collect();
        let message_bytes_max = setup.identity.limits.message_bytes_max;
        let operators = Operators::new(setup.foreign, setup.modules, &setup.identity.limits);
        let this = Rc::new(Self {
            identity: setup.identity,
            started: Instant::now(),
            control: ours.control,
            machine: RefCell::new(Machine { node: Node::new(setup.config, CoreInstant::START), recorder }),
            backlog: RefCell::default(),
            feeding: Cell::new(false),
            armed: Cell::new(CoreInstant::START),
            timer_moved: Notify::new(),
            peers: RefCell::default(),
            held: Held::default(),
            dirty: RefCell::default(),
            run_frames: RefCell::default(),
            flush_wanted: Notify::new(),
            links_gone: Notify::new(),
            datagrams,
            keyring: RefCell::new(Keyring::new(keys)),
            workers: Workers::new(
                &setup.thread_name,
                Arc::clone(&registry),
                setup.workers_max,
                message_bytes_max,
                Arc::clone(&slowness),
            ),
            registry,
            futures: RefCell::default(),
            cancelled: RefCell::default(),
            slowness,
            inline_cost_max,
            meters,
            answers: RefCell::default(),
            streams: RefCell::new(Streams::new(ours.handle)),
            launcher: RefCell::default(),
            operators: RefCell::new(operators),
            members: ours.members,
            complaints: Complaints::default(),
        });
        this.feed_timeout(); // the effects that a node has at its start
        this.spawn_tasks(listener, ours.asks);
        if !setup.join.is_empty() {
            spawn_local(Rc::clone(&this).join_when(setup.may_join, Seeds::new(setup.join)));
        }
        Ok(this)
    }

    fn spawn_tasks(self: &Rc<Self>, listener: Option<TcpListener>, asks: Asks) {
        spawn_local(Rc::clone(self).flush());
        spawn_local(Rc::clone(self).keep_time());
        spawn_local(Rc::clone(self).take_datagrams());
        spawn_local(Rc::clone(self).renew_keys());
        spawn_local(Rc::clone(self).collect_finished());
        spawn_local(Rc::clone(self).take_asks(asks));
        if let Some(listener) = listener {
            spawn_local(Rc::clone(self).accept(listener));
        }
        if let Some(credentials) = self.identity.credentials() {
            spawn_local(Rc::clone(self).keep_credentials(credentials.clone()));
        }
        if self.machine.borrow().recorder.is_some() {
            spawn_local(Rc::clone(self).flush_recording());
        }
    }

    async fn join_when(self: Rc<Self>, may_join: Option<oneshot::Receiver<Welcome>>, mut seeds: Seeds) {
        if let Some(may_join) = may_join {
            let Ok(Welcome { known, taken }) = may_join.await else { return };
            if let Some((from, cards)) = known {
                self.take_welcome(&mut seeds, from, cards).await;
            }
            // The starter of the node may no longer wait.
            let _ = taken.send(());
        }
        self.join(seeds).await;
    }

    async fn flush_recording(self: Rc<Self>) {
        loop {
            tokio::time::sleep(RECORDING_FLUSH_EVERY).await;
            if let Some(recorder) = &mut self.machine.borrow_mut().recorder {
                recorder.flush();
            }
        }
    }

    /// Closes the recording if the node has drained. The recording of a loop that was stopped before has no
    /// end record.
    fn end(&self) {
        if self.answers.borrow().is_drained()
            && let Some(recorder) = &mut self.machine.borrow_mut().recorder
        {
            recorder.finish();
        }
    }
}

/// Informs the owner when the thread ends, even after a panic.
struct EndedOnDrop<'a>(&'a Control);

impl Drop for EndedOnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(|state| state.ended = true);
    }
}
