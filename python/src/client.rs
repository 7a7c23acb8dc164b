//! Clients.

use crate::detached::Detached;
use crate::error;
use crate::inbox::seconds;
use crate::mirror::{self, ReaderOptions};
use crate::options::Secrets;
use crate::payload;
use crate::pending::{Finish, Pending};
use crate::reply;
use crate::slices::Slices;
use crate::stream::{self, StreamOptions};
use bytes::Bytes;
use pyo3::prelude::*;
use std::str::FromStr;
use std::time::Duration;
use treefold::{CallError, Error, Raw};

/// Makes calls.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Client {
    client: Detached<treefold::Client>,
    /// True if it runs a node's loop, or has that of a node, so that it can be the root of a stream's tree.
    has_loop: bool,
}

impl Client {
    /// A client of a node.
    pub(crate) fn of_node(client: treefold::Client) -> Self {
        Self { client: Detached::new(client), has_loop: true }
    }

    fn built(
        &self,
        kind: &str,
        params: &Bound<'_, PyAny>,
        params_for: Vec<(u32, Bound<'_, PyAny>)>,
        reduce_params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Call> {
        let mut call = self.client.call_raw(kind, payload::value(params)?);
        for (partition, params) in params_for {
            call = call.params_for(partition, &Raw(payload::value(&params)?));
        }
        if let Some(params) = reduce_params {
            call = call.reduce_params(&Raw(payload::value(params)?));
        }
        Ok(call)
    }
}

/// A call's options, as the package's Python part passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct CallOptions {
    deadline: Option<f64>,
    min_coverage: Option<f64>,
    partitions: Option<Vec<u32>>,
    shape: Option<String>,
    policy: Option<String>,
    waiting: Option<String>,
    hedge: bool,
    slices: Option<u32>,
    explain: bool,
}

/// Connects to the first of `addrs` that answers.
#[pyfunction]
pub(crate) fn connect(addrs: Vec<String>, direct: bool, secrets: Secrets) -> PyResult<Pending> {
    let builder = treefold::Client::builder().at(addrs).direct(direct).cluster(secrets.options()?);
    Ok(Pending::new(async move {
        let connected = builder.connect().await;
        let finish: Finish = Box::new(move |py| {
            let client = Detached::new(connected.map_err(error::of_call)?);
            Ok(Py::new(py, Client { client, has_loop: direct })?.into_any())
        });
        finish
    }))
}

#[pymethods]
impl Client {
    /// Starts a call. `params_for` has the parameters of single partitions, `reduce_params` those of the reduce, if it has any of
    /// its own. Its result is a tuple.
    fn call(
        &self,
        kind: &str,
        params: &Bound<'_, PyAny>,
        params_for: Vec<(u32, Bound<'_, PyAny>)>,
        reduce_params: Option<&Bound<'_, PyAny>>,
        options: CallOptions,
    ) -> PyResult<Pending> {
        outcome(self.built(kind, params, params_for, reduce_params)?, options)
    }

    /// Starts to read the slices of a call. It begins with the first wait for one.
    fn each_slice(
        &self,
        kind: &str,
        params: &Bound<'_, PyAny>,
        params_for: Vec<(u32, Bound<'_, PyAny>)>,
        reduce_params: Option<&Bound<'_, PyAny>>,
        window: Option<u32>,
        options: CallOptions,
    ) -> PyResult<Slices> {
        let call = self.built(kind, params, params_for, reduce_params)?;
        let call = options.apply(call).map_err(|error| error::of_call(Error::Rejected(error)))?;
        let each = call.each_slice();
        Ok(Slices::of(match window {
            Some(window) => each.window(window),
            None => each,
        }))
    }

    /// Announces a request of an application whose workers push. Its result is that of a call.
    fn announce(
        &self,
        kind: &str,
        params: &Bound<'_, PyAny>,
        request: u64,
        workers: Vec<u32>,
        patience: Option<f64>,
        options: CallOptions,
    ) -> PyResult<Pending> {
        let params = if params.is_none() { Bytes::new() } else { payload::value(params)? };
        let mut call = self.client.announce(kind, params, request, workers.into_iter().collect());
        if let Some(patience) = patience {
            call = call.patience(seconds(patience)?);
        }
        outcome(call, options)
    }

    /// Opens a stream with this client as the front-end. Its result is a `Stream`.
    fn stream(&self, py: Python<'_>, service: &str, options: StreamOptions) -> PyResult<Pending> {
        stream::open(options.apply(py, self.client.stream(service))?, (*self.client).clone())
    }

    /// Starts a reader of a feed. Its result is a `Reader`.
    fn reader(&self, feed: &str, options: ReaderOptions) -> PyResult<Pending> {
        if !self.has_loop {
            return Err(error::of_call(Error::NoLoop));
        }
        mirror::start(options.apply(treefold_feed::Reader::connect(&self.client, feed))?)
    }

    /// Asks the node for the members in sight, itself first. Its result is a list of (address, {service: partitions}).
    fn members(&self) -> PyResult<Pending> {
        let client = (*self.client).clone();
        Ok(Pending::new(async move {
            let status = client.status().await;
            let finish: Finish = Box::new(|py| {
                let status = status.map_err(error::of_call)?;
                let others = status.members.iter().map(|member| &member.card);
                let members: Vec<_> = std::iter::once(&status.card)
                    .chain(others)
                    .map(|card| {
                        let services = card.services.iter();
                        let held = services
                            .map(|(name, held)| (name.clone(), held.partitions.iter().collect::<Vec<_>>()));
                        (card.node.to_string(), held.collect::<std::collections::BTreeMap<_, _>>())
                    })
                    .collect();
                Ok(members.into_pyobject(py)?.into_any().unbind())
            });
            finish
        }))
    }
}

type Call = treefold::CallBuilder<'static, Raw>;

/// Makes the call.
fn outcome(call: Call, options: CallOptions) -> PyResult<Pending> {
    let call = options.apply(call).map_err(|error| error::of_call(Error::Rejected(error)))?;
    Ok(Pending::new(async move {
        let outcome = call.await;
        let finish: Finish = Box::new(|py| reply::tuple(py, outcome.map_err(error::of_call)?));
        finish
    }))
}

impl CallOptions {
    fn apply(self, mut call: Call) -> Result<Call, CallError> {
        call = call.hedge(self.hedge).explain(self.explain);
        if let Some(seconds) = self.deadline {
            call = call.deadline(deadline(seconds)?);
        }
        if let Some(share) = self.min_coverage {
            call = call.min_coverage(share);
        }
        if let Some(partitions) = self.partitions {
            call = call.partitions(partitions.into_iter().collect());
        }
        if let Some(slices) = self.slices {
            call = call.slices(slices);
        }
        if let Some(shape) = self.shape {
            call = call.shape(self::shape(&shape)?);
        }
        if let Some(policy) = self.policy {
            call = call.policy(named(
                "policy",
                &policy,
                "random, round_robin, announced, polled:D, peak_ewma, prequal, prequal_inline",
            )?);
        }
        if let Some(waiting) = self.waiting {
            call = call.waiting(named("waiting", &waiting, "staged, slope, slope:FMIN,FMAX, learned")?);
        }
        Ok(call)
    }
}

/// The shape with this name.
///
/// # Errors
/// If there is none.
pub(crate) fn shape(name: &str) -> Result<treefold::Shape, CallError> {
    named(
        "shape",
        name,
        "auto, topology, adaptive, on-path, earliest-ready, binomial, kary:K, chain, flat, base",
    )
}

fn deadline(seconds: f64) -> Result<Duration, CallError> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| CallError::bad_field("deadline", seconds, "seconds above 0"))
}

fn named<T: FromStr>(field: &str, text: &str, allowed: &str) -> Result<T, CallError> {
    text.parse().map_err(|_| CallError::bad_field(field, text, allowed))
}
