//! The service `FEED.origin`, by which a running origin is asked and set.
//!
//! A feed's name finds its mirrors, and this service's name finds its origin: the origin's process is a node, and the
//! service has one partition there. Two origins of a feed may run at the same time, when one is about to learn that
//! another has taken its place. So the answer of the latest epoch counts, and an origin without mirrors refuses changes.
//!
//! A node may ask a service twice if a connection breaks. A change therefore bears a number of its caller, and a
//! repeated one gets the first one's answer.

use crate::origin::{Orders, Origin, PresentRules, SetError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::runtime::Handle;
use tokio::sync::watch;
use treefold::operators::{OperatorError, Result};
use treefold::{AsyncAggregation, Partition, Service};
use treefold_mirror::Name;
use treefold_mirror::change::{Change, ChangeError, ModeChoice, Parameter, Version};
use treefold_mirror::rules::{Function, Mode, Rule, RuleFile};
use treefold_mirror::select::{Functions, RuleCount};

/// Most bytes of a file of rules.
const RULES_BYTES_MAX: usize = 1 << 20;
/// Most functions of one change.
const FUNCTIONS_MAX: usize = 16;
/// Changes of which the answers are kept, for requests that are repeated.
const ANSWERS_KEPT: usize = 64;
/// Changes that may be prepared at the same time.
const PREPARED_MAX: usize = 4;

/// The name of the service of a feed's origin.
pub fn origin_service_name(feed: &str) -> String {
    format!("{feed}.origin")
}

/// Makes a rule's function of bytes that were sent to a running origin, for instance of a WebAssembly module.
pub type FunctionLoader = Arc<dyn Fn(&Bytes) -> std::result::Result<Box<dyn Function>, String> + Send + Sync>;

/// Returns the service by which a feed's origin is asked and set, for the node in the origin's process, and the desk
/// at which the origin then answers. Any client that may call the cluster's services may change the rules.
///
/// Without a loader, the origin refuses functions that are sent to it.
pub fn origin_service(feed: &str, loader: Option<FunctionLoader>) -> (Service, OriginDesk) {
    let desk = Arc::new(Desk { attended: OnceLock::new(), loader, answers: Mutex::default() });
    let service = Service::new(origin_service_name(feed))
        .async_aggregation("set", Setting)
        .async_aggregation("status", Reporting)
        .async_aggregation("rules", Showing)
        .partition_arc(0, Arc::clone(&desk) as _);
    (service, OriginDesk(desk))
}

/// The place where an origin answers its service.
#[derive(Debug)]
pub struct OriginDesk(Arc<Desk>);

impl OriginDesk {
    /// Lets this origin answer from now on. To be called on a tokio runtime, once: a desk serves one origin.
    pub fn attend(self, origin: &Origin) {
        // The desk is consumed, so nobody attends it a second time.
        let _ = self.0.attended.set(Attended { orders: origin.orders(), runtime: Handle::current() });
    }
}

struct Desk {
    attended: OnceLock<Attended>,
    loader: Option<FunctionLoader>,
    answers: Mutex<VecDeque<(u64, watch::Receiver<Option<SetAnswer>>)>>,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("attended", &self.attended.get()).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct Attended {
    orders: Orders,
    runtime: Handle,
}

/// A change, as it is sent to an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SetRequest {
    /// A random number. A request with the number of an earlier one is answered, and not carried out again; 0 is none.
    pub request: u64,
    /// Refuses the change if the rules were set again after this version.
    pub if_version: Option<Version>,
    /// A file of rules in place of the present rules.
    pub rules: Option<String>,
    /// Parameters to change.
    pub parameters: Vec<Parameter>,
    /// Functions that are new or replaced.
    pub functions: BTreeMap<Name, Module>,
    /// The choice of the mode.
    pub mode: Option<ModeChoice>,
}

/// The bytes of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module(pub Bytes);

impl Serialize for Module {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Module {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Module;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the bytes of a function")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> std::result::Result<Module, E> {
                Ok(Module(Bytes::copy_from_slice(bytes)))
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> std::result::Result<Module, E> {
                Ok(Module(bytes.into()))
            }
        }
        from.deserialize_byte_buf(Visitor)
    }
}

/// The answer of an origin to a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAnswer {
    /// The origin's epoch.
    pub epoch: u32,
    /// The version of the rules from now on; the present one if the change is refused.
    pub rules_version: u32,
    /// The position of the first event that the new rules choose. `None` if earlier events still wait to be sent, or
    /// the change is refused.
    pub position: Option<u64>,
    /// The reason why the change is refused. Nothing has changed then.
    pub refused: Option<SetRefusal>,
}

/// The reason why an origin refuses a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRefusal {
    /// The reason, for programs.
    pub reason: SetReason,
    /// The reason, for people.
    pub message: String,
    /// The problems of the rules, with their places in the file.
    pub problems: Vec<ProblemAt>,
}

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetReason {
    /// The rules were set again after the given version.
    Version,
    /// The rules have problems.
    Problems,
    /// Two rules have the parameter.
    Ambiguous,
    /// A rule names a function that the origin does not have, or no rule names the given one, or its bytes are invalid.
    Function,
    /// Other changes wait.
    Busy,
    /// No mirror follows this origin.
    NoMirrors,
    /// The request changes nothing, or exceeds a limit.
    Request,
}

/// A problem of a file of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemAt {
    /// Its line, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
    /// The problem, with the name of the rule.
    pub message: String,
}

/// The state of a running origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OriginReport {
    /// Its epoch.
    pub epoch: u32,
    /// The position of the last event sent.
    pub position: u64,
    /// All mirrors that take part have the events up to this position.
    pub committed: u64,
    /// The mirrors that take part.
    pub mirrors: Vec<u32>,
    /// The mode of the rules.
    pub mode: Mode,
    /// The way in which the mode is chosen.
    pub mode_choice: ModeChoice,
    /// The version of the rules for the next event.
    pub rules_version: u32,
    /// The version at which the rules were last set. Later versions are other modes of the same rules.
    pub rules_set_at: u32,
    /// The rules, with their work.
    pub rules: Vec<RuleReport>,
    /// The last error of a user's function.
    pub function_error: Option<String>,
    /// Events that wait to be sent.
    pub ready: QueueReport,
    /// Mirrored events that are not committed.
    pub backup: QueueReport,
    /// For each incoming stream, the number up to which its events are acknowledged.
    pub acknowledged: BTreeMap<Name, u64>,
    /// The problem of the journal that holds up all events.
    pub journal_problem: Option<String>,
}

/// The length of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReport {
    /// Its events.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A rule and its work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleReport {
    /// Its name.
    pub name: Name,
    /// Its kind.
    pub kind: String,
    /// Events that it has dropped, or that another event has taken up.
    pub suppressed: u64,
    /// Events that were held back and then sent.
    pub released: u64,
    /// Events that it has made.
    pub made: u64,
    /// Events whose function has failed; they were mirrored as they were.
    pub errors: u64,
}

impl RuleReport {
    pub(crate) fn of(rule: &Rule, count: RuleCount) -> Self {
        let RuleCount { suppressed, released, made, errors, .. } = count;
        Self {
            name: rule.name.clone(),
            kind: rule.kind.word().to_owned(),
            suppressed,
            released,
            made,
            errors,
        }
    }
}

/// The rules of a running origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesShown {
    /// The origin's epoch.
    pub epoch: u32,
    /// The version at which they were set.
    pub rules_version: u32,
    /// The rules, as a file.
    pub rules: String,
}

impl SetRefusal {
    fn new(reason: SetReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), problems: Vec::new() }
    }

    fn of(error: &ChangeError, text: &str) -> Self {
        let reason = match error {
            ChangeError::Version { .. } => SetReason::Version,
            ChangeError::Problems(_) => SetReason::Problems,
            ChangeError::Ambiguous { .. } => SetReason::Ambiguous,
            ChangeError::UnknownFunction(_) | ChangeError::UnusedFunction { .. } => SetReason::Function,
            ChangeError::Busy { .. } => SetReason::Busy,
        };
        let problems = match error {
            ChangeError::Problems(problems) => problems.as_slice(),
            _ => &[],
        };
        let place = |problem: &treefold_mirror::rules::Problem| {
            let ((line, column), message) = (problem.place(text), problem.message.clone());
            ProblemAt { line, column, message }
        };
        Self { reason, message: error.to_string(), problems: problems.iter().map(place).collect() }
    }
}

impl SetRequest {
    /// An empty request with a random number.
    pub fn numbered() -> Self {
        Self { request: crate::random_seed().max(1), ..Self::default() }
    }

    /// Reads the rules, and makes the functions. It takes as long as the functions take to compile.
    fn prepare(&self, loader: Option<&FunctionLoader>) -> std::result::Result<Change, SetRefusal> {
        let refuse = |problem: String| Err(SetRefusal::new(SetReason::Request, problem));
        if let Some(rules) = self.rules.as_ref().filter(|rules| rules.len() > RULES_BYTES_MAX) {
            return refuse(format!("rules: {} bytes; allowed: {RULES_BYTES_MAX}", rules.len()));
        }
        if self.functions.len() > FUNCTIONS_MAX {
            return refuse(format!("functions: {}; allowed: {FUNCTIONS_MAX}", self.functions.len()));
        }
        let is_empty = self.rules.is_none() && self.parameters.is_empty() && self.functions.is_empty();
        if is_empty && self.mode.is_none() {
            return refuse(
                "the request changes nothing; expected rules, parameters, functions or mode".into(),
            );
        }
        let rules = self.rules.as_deref().map(RuleFile::read).transpose();
        let text = self.rules.as_deref().unwrap_or_default();
        let rules = rules.map_err(|problems| SetRefusal::of(&ChangeError::Problems(problems), text))?;
        let mut functions = Functions::new();
        for (name, module) in &self.functions {
            let loaded = match loader {
                Some(load) => load(&module.0),
                None => Err("this origin takes no functions that are sent to it".to_owned()),
            };
            let failed =
                |problem| SetRefusal::new(SetReason::Function, format!("function `{name}`: {problem}"));
            functions.insert(name.clone(), loaded.map_err(failed)?);
        }
        let (if_version, parameters, mode) = (self.if_version, self.parameters.clone(), self.mode);
        Ok(Change { if_version, rules, parameters, functions, mode })
    }
}

impl Desk {
    fn attended(&self) -> Result<&Attended> {
        self.attended.get().ok_or_else(|| OperatorError::new("the origin is starting"))
    }

    /// Begins a change, or finds the one with the same number.
    fn set(&self, request: Arc<SetRequest>) -> Result<watch::Receiver<Option<SetAnswer>>> {
        let attended = self.attended()?.clone();
        let mut answers = self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let same = |(number, _): &&(u64, _)| request.request != 0 && *number == request.request;
        if let Some((_, answer)) = answers.iter().find(same) {
            return Ok(answer.clone());
        }
        let unanswered = answers.iter().filter(|(_, answer)| answer.borrow().is_none()).count();
        if unanswered >= PREPARED_MAX {
            return Err(OperatorError::new(format!(
                "busy: {unanswered} changes are being prepared; allowed: {PREPARED_MAX}"
            )));
        }
        if answers.len() >= ANSWERS_KEPT {
            answers.pop_front();
        }
        let (telling, answer) = watch::channel(None);
        answers.push_back((request.request, answer.clone()));
        drop(answers);
        let (loader, runtime) = (self.loader.clone(), attended.runtime.clone());
        runtime.spawn(async move {
            if let Some(answer) = attended.set(request, loader).await {
                telling.send_replace(Some(answer));
            }
        });
        Ok(answer)
    }
}

impl Attended {
    /// Carries out a change. `None` if the origin has ended.
    async fn set(&self, request: Arc<SetRequest>, loader: Option<FunctionLoader>) -> Option<SetAnswer> {
        let text = request.rules.clone().unwrap_or_default();
        let prepared = tokio::task::spawn_blocking(move || request.prepare(loader.as_ref())).await.ok()?;
        let refusal = match prepared {
            Err(refusal) => refusal,
            Ok(change) => match self.orders.set(change).await {
                Ok(set) => {
                    let (epoch, rules_version, position) = (set.epoch, set.rules_version, set.position);
                    return Some(SetAnswer { epoch, rules_version, position, refused: None });
                }
                Err(SetError::Refused(error)) => SetRefusal::of(&error, &text),
                Err(error @ SetError::NoMirrors) => SetRefusal::new(SetReason::NoMirrors, error.to_string()),
                Err(SetError::Ended) => return None,
            },
        };
        let PresentRules { epoch, rules_version, .. } = self.orders.rules().await?;
        Some(SetAnswer { epoch, rules_version, position: None, refused: Some(refusal) })
    }
}

fn ended() -> OperatorError {
    OperatorError::new("the origin has ended")
}

/// Changes the rules.
struct Setting;

impl AsyncAggregation for Setting {
    type Params = SetRequest;
    type Partial = SetAnswer;

    async fn local(&self, partition: Partition, request: Arc<SetRequest>) -> Result<SetAnswer> {
        let mut answer = partition.data_as::<Desk>()?.set(request)?;
        let answered = answer.wait_for(Option::is_some).await.map_err(|_| ended())?;
        answered.clone().ok_or_else(ended)
    }

    async fn reduce(&self, a: SetAnswer, b: SetAnswer, _: Arc<SetRequest>) -> Result<SetAnswer> {
        Ok(if a.epoch >= b.epoch { a } else { b })
    }

    fn holds_processor(&self) -> bool {
        false
    }
}

/// Tells the state.
struct Reporting;

impl AsyncAggregation for Reporting {
    type Params = ();
    type Partial = OriginReport;

    async fn local(&self, partition: Partition, _: Arc<()>) -> Result<OriginReport> {
        let orders = partition.data_as::<Desk>()?.attended()?.orders.clone();
        orders.report().await.ok_or_else(ended)
    }

    async fn reduce(&self, a: OriginReport, b: OriginReport, _: Arc<()>) -> Result<OriginReport> {
        Ok(if a.epoch >= b.epoch { a } else { b })
    }

    fn holds_processor(&self) -> bool {
        false
    }
}

/// Shows the rules.
struct Showing;

impl AsyncAggregation for Showing {
    type Params = ();
    type Partial = RulesShown;

    async fn local(&self, partition: Partition, _: Arc<()>) -> Result<RulesShown> {
        let orders = partition.data_as::<Desk>()?.attended()?.orders.clone();
        let PresentRules { epoch, rules_version, rules } = orders.rules().await.ok_or_else(ended)?;
        let rules = rules.to_toml().map_err(|error| OperatorError::new(error.to_string()))?;
        Ok(RulesShown { epoch, rules_version, rules })
    }

    async fn reduce(&self, a: RulesShown, b: RulesShown, _: Arc<()>) -> Result<RulesShown> {
        Ok(if a.epoch >= b.epoch { a } else { b })
    }

    fn holds_processor(&self) -> bool {
        false
    }
}
