//! Building a call, and its reply.

use crate::client::Client;
use crate::each_slice::EachSlice;
use crate::error::Error;
use bytes::Bytes;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::call::{CallOptions, Outcome, Status, coverage};
use treefold_core::error::{CallError, Missing, Reason};
use treefold_core::id::PartitionId;
use treefold_core::limits::Limits;
use treefold_core::message::Report;
use treefold_core::params::Params;
use treefold_core::partitions::PartitionSet;
use treefold_core::push::PushRequest;
use treefold_core::replica::ReplicaPolicy;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;
use treefold_operators::{Body, BodyError, OperatorError};

/// How long after its deadline a call still waits for the front's answer before it counts the front as
/// silent.
pub(crate) const FRONT_PATIENCE: Duration = Duration::from_secs(1);

/// Default time that an announced call waits for a worker that is attached to no node.
const PATIENCE_DEFAULT: Duration = Duration::from_secs(2);

/// Gets the parameters of the reduce, too.
type Finish<'a, T> = Box<dyn FnOnce(T, &Bytes) -> Result<T, OperatorError> + Send + 'a>;

/// A call under construction; `.await` makes it.
///
/// By default it asks every partition of the service, requires coverage 1, and has a deadline of two
/// seconds. Dropping the future cancels the call throughout the tree.
///
/// ```no_run
/// # async fn example(client: treefold::Client) -> Result<(), treefold::Error> {
/// use std::time::Duration;
/// use treefold::operators::merge::Count;
/// use treefold::{ReplicaPolicy, Shape};
///
/// let reply = client
///     .call::<Count>("logs/matching", &"error".to_string())
///     .deadline(Duration::from_millis(200))
///     .min_coverage(0.95)
///     .shape(Shape::Adaptive)
///     .policy(ReplicaPolicy::DEFAULT)
///     .explain(true)
///     .await?;
/// println!("{:?}", reply.explain());
/// # Ok(())
/// # }
/// ```
#[must_use = "a call is made by awaiting it"]
pub struct CallBuilder<'a, T> {
    client: Client,
    kind: Arc<str>,
    params: Result<Bytes, BodyError>,
    own: Vec<(PartitionId, Result<Bytes, BodyError>)>,
    reduce: Option<Result<Bytes, BodyError>>,
    options: CallOptions,
    finish: Option<Finish<'a, T>>,
    value: PhantomData<fn() -> T>,
}

impl<'a, T: Body> CallBuilder<'a, T> {
    pub(crate) fn new(client: Client, kind: &str, params: Result<Bytes, BodyError>) -> Self {
        let options = CallOptions::default();
        let (own, kind) = (Vec::new(), kind.into());
        Self { client, kind, params, own, reduce: None, options, finish: None, value: PhantomData }
    }

    pub(crate) fn announced(mut self, request: u64, workers: PartitionSet) -> Self {
        self.options.push = Some(PushRequest { request, patience: PATIENCE_DEFAULT.into() });
        self.options.partitions = Some(workers);
        self
    }

    pub(crate) fn finish_with(
        mut self,
        finish: impl FnOnce(T, &Bytes) -> Result<T, OperatorError> + Send + 'a,
    ) -> Self {
        self.finish = Some(Box::new(finish));
        self
    }

    /// Sets the time until the answer is needed, time in queues included.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = deadline.into();
        self
    }

    /// Sets the minimum coverage, from 0 to 1. With less, the call has no answer.
    pub fn min_coverage(mut self, min_coverage: f64) -> Self {
        self.options.min_coverage = min_coverage;
        self
    }

    /// Sets the tree's shape.
    pub fn shape(mut self, shape: Shape) -> Self {
        self.options.shape = shape;
        self
    }

    /// Sets how a replica of each partition is picked. Default: the front's own policy.
    pub fn policy(mut self, policy: ReplicaPolicy) -> Self {
        self.options.policy = Some(policy);
        self
    }

    /// Sets how nodes wait for their children.
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.options.waiting = waiting;
        self
    }

    /// Asks a second replica as soon as the first has taken longer than 95 % of such leaves do: steadier response times for
    /// somewhat more work. Without it, a leaf must be twice as slow.
    ///
    /// At most `Tuning::hedge_share` of the partitions asked are asked for twice.
    pub fn hedge(mut self, hedge: bool) -> Self {
        self.options.hedge = hedge;
        self
    }

    /// Sets the partitions to ask. Default: all of the service.
    pub fn partitions(mut self, partitions: PartitionSet) -> Self {
        self.options.partitions = Some(partitions);
        self
    }

    /// Gives one partition parameters of its own, instead of those of the call.
    ///
    /// They travel only to the nodes on the way to that partition, so a call can hand each partition another part of a large task:
    /// the ids of the documents that it must return, for example. The reduce gets the parameters of the call, or
    /// [its own](Self::reduce_params). The partitions
    /// that are asked stay the same; set [`partitions`](Self::partitions) to ask only some.
    ///
    /// All parameters of single partitions together are at most `own_params_bytes_max` (1 MiB) long.
    ///
    /// ```no_run
    /// # async fn example(client: treefold::Client) -> Result<(), treefold::Error> {
    /// use treefold::operators::merge::Concatenate;
    ///
    /// let (common, second): (Vec<u64>, Vec<u64>) = (vec![], vec![17, 4]);
    /// let documents = client
    ///     .call::<Concatenate<u64, String>>("docs/fetch", &common)
    ///     .params_for(0, &vec![3_u64])
    ///     .params_for(2, &second)
    ///     .partitions([0, 2].into_iter().collect())
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn params_for<P: Body>(mut self, partition: PartitionId, params: &P) -> Self {
        self.own.push((partition, params.encode()));
        self
    }

    /// Gives the reduce parameters apart from those of the call, which then only the locals get.
    ///
    /// So a call can give each partition a query, and the nodes above only the number of entries to keep. The reduce gets them at every
    /// node, and so do `join` and `finish`. Their type is that of the aggregation's reduce:
    /// [`SeparateAggregation::ReduceParams`](treefold_operators::SeparateAggregation::ReduceParams), or, of an
    /// [`Aggregation`](treefold_operators::Aggregation), the type of all its parameters.
    ///
    /// They are at most `own_params_bytes_max` (1 MiB) long, those of single partitions included.
    pub fn reduce_params<P: Body>(mut self, params: &P) -> Self {
        self.reduce = Some(params.encode());
        self
    }

    /// Sets how long an announced call waits for a worker that is attached to no node, from the moment it
    /// is missed.
    ///
    /// Default: two seconds. Other calls ignore it.
    pub fn patience(mut self, patience: Duration) -> Self {
        if let Some(announced) = &mut self.options.push {
            announced.patience = patience.into();
        }
        self
    }

    /// Asks for a report of how each node of the tree spent its time.
    pub fn explain(mut self, explain: bool) -> Self {
        self.options.explain = explain;
        self
    }

    /// Cuts every partial by key into this many slices, each with its own tree; the front joins them.
    ///
    /// Slices help with bulky partials, if the aggregation
    /// [`is_sliceable`](treefold_operators::Aggregation::is_sliceable). They use several relays of a place
    /// and several processors of a node at once, and a node folds one slice while the next is on its way.
    pub fn slices(mut self, slices: u32) -> Self {
        self.options.slices = slices;
        self
    }

    /// Asks for the [`slices`](Self::slices) one after another, for a result that is larger than memory.
    ///
    /// Nothing joins the slices: the reader gets the folded value of each, in order, and has up to
    /// [`window`](EachSlice::window) of them in flight. There may be up to 1,048,576 slices. Each node makes the slice that it
    /// is asked for; the aggregation declares how ([`Aggregation::local_slice`](crate::Aggregation::local_slice)). The deadline
    /// is that of all slices. An aggregation's `finish` is not applied, and `explain` is ignored.
    ///
    /// ```no_run
    /// # async fn example(client: treefold::Client) -> Result<(), treefold::Error> {
    /// use std::time::Duration;
    /// use treefold::operators::merge::GroupCount;
    ///
    /// let call = client.call::<GroupCount<String>>("words/count", &()).deadline(Duration::from_secs(600));
    /// let mut slices = call.slices(4_096).each_slice();
    /// while let Some(counts) = slices.next().await? {
    ///     counts.groups().iter().for_each(|(word, count)| println!("{word} {count}"));
    /// }
    /// assert_eq!(slices.so_far().coverage(), 1.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn each_slice(mut self) -> EachSlice<T> {
        self.options.explain = false;
        EachSlice::new(self.prepare().map(|(call, _)| call))
    }

    fn prepare(self) -> Result<(Prepared, Option<Finish<'a, T>>), Error> {
        let own = self.own.into_iter().map(|(partition, own)| Ok((partition, own?)));
        let own = own.collect::<Result<Vec<_>, BodyError>>()?;
        let params = Params::new(self.params?, own).map_err(|partition| {
            CallError::bad_field("params_for", partition, "one entry for each partition")
        })?;
        let params = params.with_reduce(self.reduce.transpose()?);
        let Self { client, kind, options, finish, .. } = self;
        Ok((Prepared { client, kind, params, options }, finish))
    }

    async fn make(self) -> Result<Reply<T>, Error> {
        if self.options.slices == 0 {
            let max = Limits::DEFAULT.slices_max;
            let allowed = format!("1 to {max}, or to the front's own slices_max");
            return Err(CallError::bad_field("slices", 0, allowed).into());
        }
        let (call, finish) = self.prepare()?;
        call.reply(finish).await
    }
}

/// A call that has everything it needs.
pub(crate) struct Prepared {
    client: Client,
    kind: Arc<str>,
    params: Params<Bytes>,
    pub(crate) options: CallOptions,
}

impl Prepared {
    async fn reply<T: Body>(self, finish: Option<Finish<'_, T>>) -> Result<Reply<T>, Error> {
        let of_reduce = finish.as_ref().map(|_| self.params.of_reduce().clone()).unwrap_or_default();
        let outcome = self.client.outcome(Arc::clone(&self.kind), self.params, self.options).await?;
        match mistake(&self.kind, &outcome) {
            Some(mistake) => Err(mistake),
            None => Reply::of(outcome, finish.map(|finish| move |value| finish(value, &of_reduce))),
        }
    }

    /// Makes the call for one slice alone.
    pub(crate) fn slice<T: Body>(
        &self,
        index: u32,
        deadline: Duration,
    ) -> impl Future<Output = Result<Reply<T>, Error>> + Send + use<T> {
        let slices = self.options.slices;
        let only_slice = (slices > 1).then_some(index);
        let options = CallOptions { only_slice, deadline: deadline.into(), ..self.options.clone() };
        let (client, kind, params) = (self.client.clone(), Arc::clone(&self.kind), self.params.clone());
        async move {
            match (Self { client, kind, params, options }).reply(None).await {
                Err(Error::Rejected(CallError::BadField { given, .. })) if given == u32::MAX.to_string() => {
                    let limit = "1, since the front is of an older version and gives no slice alone";
                    Err(CallError::bad_field("slices", slices, limit).into())
                }
                reply => reply,
            }
        }
    }
}

impl<'a, T: Body> IntoFuture for CallBuilder<'a, T> {
    type Output = Result<Reply<T>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

impl<T> fmt::Debug for CallBuilder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallBuilder").field("kind", &self.kind).field("options", &self.options).finish()
    }
}

/// The caller's mistake that left a call without any partition, if nodes found one.
fn mistake(kind: &Arc<str>, outcome: &Outcome<Bytes>) -> Option<Error> {
    if outcome.status != Status::Insufficient || !outcome.contributed.is_empty() {
        return None;
    }
    outcome.missing.iter().find_map(|missing| match (&missing.reason, missing.node) {
        (Reason::UnknownAggregation, Some(node)) => {
            Some(Error::UnknownAggregation { kind: Arc::clone(kind), node })
        }
        (Reason::InvalidParams(problem), _) => Some(Error::InvalidParams { problem: Arc::clone(problem) }),
        _ => None,
    })
}

/// The outcome of a call. `asked` is the disjoint union of `contributed` and the partitions of `missing`.
///
/// ```
/// use treefold::{Reply, Status};
///
/// fn tell(reply: &Reply<u64>) {
///     match reply.status {
///         Status::Full => println!("{:?} from all partitions", reply.value),
///         Status::Partial => println!("{:?} from {:.0} %", reply.value, 100.0 * reply.coverage()),
///         _ => println!("coverage is below the minimum: no value"),
///     }
///     for missing in &reply.missing {
///         println!("{} missing at {:?}: {}", missing.partitions, missing.node, missing.reason);
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Reply<T> {
    /// The verdict: full, partial, or insufficient.
    pub status: Status,
    /// The answer; `None` if coverage is insufficient.
    pub value: Option<T>,
    /// The partitions that were asked.
    pub asked: PartitionSet,
    /// The partitions whose data is in the answer.
    pub contributed: PartitionSet,
    /// The other partitions, with reasons.
    pub missing: Vec<Missing>,
    /// True if the whole service was asked and no node declares its total
    /// ([`Service::total`](crate::Service::total)). Then [`asked`](Self::asked) holds every partition that
    /// the front has ever seen, and coverage counts no others.
    pub total_is_guess: bool,
    /// Time from the call's arrival at its front to its end.
    pub elapsed: Duration,
    /// How the time was spent, if asked for.
    pub report: Option<Report>,
}

impl<T> Reply<T> {
    /// Contributed ÷ asked partitions; 1 if none were asked.
    pub fn coverage(&self) -> f64 {
        coverage(self.contributed.len(), self.asked.len())
    }

    /// The answer.
    ///
    /// # Errors
    /// [`Error::NoValue`] if coverage is below the minimum.
    pub fn into_value(self) -> Result<T, Error> {
        let coverage = self.coverage();
        self.value.ok_or(Error::NoValue { coverage, missing: self.missing })
    }

    /// The tree, with times per node, if [`explain`](CallBuilder::explain) asked for it.
    pub fn explain(&self) -> Option<&Report> {
        self.report.as_ref()
    }
}

impl<T: Body> Reply<T> {
    fn of(
        outcome: Outcome<Bytes>,
        finish: Option<impl FnOnce(T) -> Result<T, OperatorError>>,
    ) -> Result<Self, Error> {
        if let Status::Rejected(error) = outcome.status {
            return Err(Error::Rejected(error));
        }
        let value = outcome.value.map(|bytes| T::decode(&bytes)).transpose()?;
        let value = match (value, finish) {
            (Some(value), Some(finish)) => Some(finish(value).map_err(Error::Finish)?),
            (value, _) => value,
        };
        Ok(Self {
            status: outcome.status,
            value,
            asked: outcome.asked,
            contributed: outcome.contributed,
            missing: outcome.missing,
            total_is_guess: outcome.total_is_guess,
            elapsed: outcome.elapsed.into(),
            report: outcome.report.map(|report| *report),
        })
    }
}
