//! A stage: all processes of one system, on which loads are measured one after the other.

use crate::Problem;
use crate::nats::Nats;
use crate::redis::Redis;
use crate::system::{Base, System, SystemArgs};
use crate::tally::{Count, Joins};
use crate::work::Work;
use serde::Deserialize;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use treefold_bench_down::clock::cpu_time;
use treefold_bench_down::part::Part;

/// Time between the beginning of a load and its measurement.
const WARM_UP: Duration = Duration::from_millis(700);
/// Looks at readers until they have all events of the last load.
const DRAIN_LOOKS: u32 = 100;

/// Set by Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn interrupt(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Lets Ctrl-C end the benchmark at its next pause, so that it ends its servers and removes their files.
pub(crate) fn catch_interrupts() {
    let handler = interrupt as extern "C" fn(libc::c_int);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic, which is safe within a signal.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// Sleeps.
///
/// # Errors
/// If Ctrl-C was pressed.
pub(crate) fn pause(time: Duration) -> Result<(), Problem> {
    let until = Instant::now() + time;
    loop {
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// The processes to start.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) system: System,
    pub(crate) work: Work,
    /// Treefold's mirrors.
    pub(crate) mirrors: u32,
    pub(crate) readers: u32,
    /// Readers keep the last body of each key.
    pub(crate) keeps_state: bool,
    pub(crate) has_joiner: bool,
    pub(crate) every_events: Option<u64>,
    /// Further words for the source.
    pub(crate) source_words: Vec<String>,
    /// The source fills the keys before readers start.
    pub(crate) fills: bool,
}

impl Plan {
    pub(crate) fn new(system: System, work: Work) -> Self {
        Self {
            system,
            work,
            mirrors: 1,
            readers: 0,
            keeps_state: false,
            has_joiner: false,
            every_events: None,
            source_words: Vec::new(),
            fills: true,
        }
    }
}

/// The servers of a system.
#[derive(Debug)]
enum Servers {
    Mirrors(Vec<Part>),
    Redis(Redis),
    Nats(Nats),
}

/// The processes of a system.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) source: Part,
    pub(crate) readers: Vec<Part>,
    joiner: Option<Part>,
    servers: Servers,
    pub(crate) args: SystemArgs,
}

/// A load: events and joins per second. `None` is as many as may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) rate: Option<f64>,
    pub(crate) joins: Option<f64>,
}

/// The figures of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Point {
    pub(crate) offered_per_s: f64,
    /// Events at the reader, or the mirror, with the fewest.
    pub(crate) events_per_s: f64,
    /// Of the reader with the greatest delays.
    pub(crate) delay_p50_us: f64,
    pub(crate) delay_p99_us: f64,
    pub(crate) delay_mean_us: f64,
    pub(crate) pause_ms_max: f64,
    pub(crate) lagged: f64,
    pub(crate) joins_per_s: f64,
    pub(crate) join_ms_p50: f64,
    pub(crate) join_ms_p99: f64,
    pub(crate) joins_failed: f64,
    pub(crate) joins_short: f64,
    /// Processors that the mirrors' or the server's processes used.
    pub(crate) server_cpus: f64,
    pub(crate) source_cpus: f64,
}

/// A mirror's answer.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct MirrorReport {
    pub(crate) position: u64,
    pub(crate) keys: u64,
    pub(crate) readers: u64,
    pub(crate) resident_bytes: u64,
}

#[derive(Deserialize)]
struct Offered {
    offered: u64,
}

impl Stage {
    /// Starts all processes, and fills the keys.
    pub(crate) fn start(plan: &Plan) -> Result<Self, Problem> {
        let Plan { system, work, mirrors, .. } = *plan;
        let args =
            |at: String| SystemArgs { system, at, http: None, mirrors, every_events: plan.every_events };
        let (servers, args) = match system.base {
            Base::Treefold | Base::TreefoldShared | Base::TreefoldHttp => {
                let (parts, node, http) = start_mirrors(mirrors)?;
                (Servers::Mirrors(parts), SystemArgs { http: Some(http), ..args(node) })
            }
            Base::Redis | Base::RedisScan => {
                let redis = Redis::start()?;
                let port = redis.port().to_string();
                (Servers::Redis(redis), args(port))
            }
            Base::Nats | Base::Jetstream | Base::JetstreamAlways => {
                let nats = Nats::start()?;
                if system.has_snapshots() {
                    nats.make_stream()?;
                }
                let port = nats.port().to_string();
                (Servers::Nats(nats), args(port))
            }
        };
        let mut stage = Self {
            source: start_part("source", &args, work, &plan.source_words)?,
            readers: Vec::new(),
            joiner: None,
            servers,
            args,
        };
        if plan.fills {
            stage.source.tell("fill")?;
        }
        if system.base == Base::JetstreamAlways
            && let Servers::Nats(nats) = &mut stage.servers
        {
            // Filling the keys with an fsync for each would take longer than the measurement.
            nats.restart("always")?;
            stage.source = start_part("source", &stage.args, work, &plan.source_words)?;
        }
        for _ in 0..plan.readers {
            let keeps: Vec<String> =
                plan.keeps_state.then(|| "--keeps-state".to_owned()).into_iter().collect();
            let reader = start_part("reader", &stage.args, work, &keeps)?;
            stage.readers.push(reader);
        }
        if plan.has_joiner {
            stage.joiner = Some(start_part("joiner", &stage.args, work, &[])?);
        }
        Ok(stage)
    }

    /// The mirrors' answers; none of another system.
    pub(crate) fn mirrors(&mut self) -> Result<Vec<MirrorReport>, Problem> {
        match &mut self.servers {
            Servers::Mirrors(mirrors) => mirrors.iter_mut().map(|mirror| mirror.ask("report")).collect(),
            Servers::Redis(_) | Servers::Nats(_) => Ok(Vec::new()),
        }
    }

    fn server_cpu(&self) -> Result<Duration, Problem> {
        match &self.servers {
            Servers::Mirrors(mirrors) => mirrors.iter().map(Part::cpu_time).sum(),
            Servers::Redis(redis) => Ok(cpu_time(redis.id())?),
            Servers::Nats(nats) => Ok(cpu_time(nats.id())?),
        }
    }

    fn offered(&mut self) -> Result<u64, Problem> {
        Ok(self.source.ask::<Offered>("report")?.offered)
    }

    /// Begins a load.
    pub(crate) fn begin(&mut self, load: Load) -> Result<(), Problem> {
        self.source.tell(&format!("rate {}", word(load.rate)))?;
        self.join(load.joins)
    }

    /// Begins joins.
    pub(crate) fn join(&mut self, joins: Option<f64>) -> Result<(), Problem> {
        match &mut self.joiner {
            Some(joiner) => joiner.tell(&format!("join {}", word(joins))),
            None => Ok(()),
        }
    }

    /// The process of the first mirror.
    pub(crate) fn mirror_id(&self) -> Result<u32, Problem> {
        match &self.servers {
            Servers::Mirrors(mirrors) => Ok(mirrors.first().ok_or("no mirror")?.id()),
            Servers::Redis(_) | Servers::Nats(_) => Err("no mirror".into()),
        }
    }

    /// Ends a load, and waits until readers have all its events.
    pub(crate) fn end(&mut self) -> Result<(), Problem> {
        if let Some(joiner) = &mut self.joiner {
            joiner.tell("join 0")?;
        }
        self.source.tell("stop")?;
        let mut before = 0;
        for _ in 0..DRAIN_LOOKS {
            pause(Duration::from_millis(50))?;
            let counts = self.counts()?;
            let events = counts.iter().map(|count| count.events).sum();
            if events == before {
                break;
            }
            before = events;
        }
        Ok(())
    }

    pub(crate) fn mark(&mut self) -> Result<(), Problem> {
        // All are told before one answers, so that they begin at one time.
        let mut parts: Vec<&mut Part> = self.readers.iter_mut().chain(&mut self.joiner).collect();
        parts.iter_mut().try_for_each(|part| part.say("mark"))?;
        parts.iter_mut().try_for_each(|part| part.answer().map(|_| ()))
    }

    /// The readers' counts since the last mark.
    pub(crate) fn counts(&mut self) -> Result<Vec<Count>, Problem> {
        self.readers.iter_mut().try_for_each(|reader| reader.say("report"))?;
        let answers: Result<Vec<Value>, Problem> = self.readers.iter_mut().map(Part::answer).collect();
        answers?.into_iter().map(|answer| Ok(serde_json::from_value(answer)?)).collect()
    }

    /// Runs a load, and measures it.
    pub(crate) fn measure(&mut self, load: Load, seconds: f64) -> Result<Point, Problem> {
        self.begin(load)?;
        pause(WARM_UP)?;
        self.mark()?;
        let (began, positions, offered) = (Instant::now(), self.mirrors()?, self.offered()?);
        let (server_before, source_before) = (self.server_cpu()?, self.source.cpu_time()?);
        pause(Duration::from_secs_f64(seconds))?;
        let elapsed = began.elapsed().as_secs_f64();
        let (offered_after, positions_after) = (self.offered()?, self.mirrors()?);
        let counts = self.counts()?;
        let joins = match &mut self.joiner {
            Some(joiner) => joiner.ask("report")?,
            None => Joins::default(),
        };
        let (server_after, source_after) = (self.server_cpu()?, self.source.cpu_time()?);
        self.end()?;
        if let Some(problem) = &joins.problem {
            eprintln!("bench-mirrors: {}: a join failed: {problem}", self.args.system);
        }
        let moved = positions.iter().zip(&positions_after).map(|(from, to)| to.position - from.position);
        let at_mirrors = moved.map(|events| events as f64 / elapsed).fold(f64::INFINITY, f64::min);
        let at_readers =
            counts.iter().map(|count| count.events as f64 / count.seconds).fold(f64::INFINITY, f64::min);
        let worst = |figure: fn(&Count) -> f64| counts.iter().map(figure).fold(0.0, f64::max);
        let events_per_s = if counts.is_empty() { at_mirrors } else { at_readers };
        Ok(Point {
            offered_per_s: (offered_after - offered) as f64 / elapsed,
            events_per_s,
            delay_p50_us: worst(|count| count.delay_p50_us),
            delay_p99_us: worst(|count| count.delay_p99_us),
            delay_mean_us: worst(|count| count.delay_mean_us),
            pause_ms_max: worst(|count| count.pause_ms_max),
            lagged: worst(|count| count.lagged as f64),
            joins_per_s: joins.complete as f64 / joins.seconds.max(1e-9),
            join_ms_p50: joins.complete_ms_p50,
            join_ms_p99: joins.complete_ms_p99,
            joins_failed: joins.failed as f64,
            joins_short: joins.short as f64,
            server_cpus: (server_after - server_before).as_secs_f64() / elapsed,
            source_cpus: (source_after - source_before).as_secs_f64() / elapsed,
        })
    }
}

/// A rate as a part reads it.
pub(crate) fn word(rate: Option<f64>) -> String {
    rate.map_or_else(|| "max".to_owned(), |rate| rate.to_string())
}

/// Starts a part of a system.
pub(crate) fn start_part(
    role: &str,
    args: &SystemArgs,
    work: Work,
    more: &[String],
) -> Result<Part, Problem> {
    let mut words = vec![role.to_owned()];
    words.extend(args.words());
    words.extend(work.words());
    words.extend_from_slice(more);
    Ok(Part::start(&words)?.0)
}

/// Starts mirrors. Also returns the first one's addresses.
fn start_mirrors(count: u32) -> Result<(Vec<Part>, String, String), Problem> {
    let (mut parts, mut first) = (Vec::new(), None::<(String, String)>);
    for number in 0..count {
        let mut words: Vec<String> = ["mirror", "--of", &count.to_string(), "--number", &number.to_string()]
            .map(str::to_owned)
            .to_vec();
        if let Some((node, _)) = &first {
            words.extend(["--join".to_owned(), node.clone()]);
        }
        let (part, ready) = Part::start(&words)?;
        let text = |name: &str| ready.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        first.get_or_insert_with(|| (text("node"), text("http")));
        parts.push(part);
    }
    // Without mirrors, the source works alone.
    let (node, http) = first.unwrap_or_default();
    Ok((parts, node, http))
}
