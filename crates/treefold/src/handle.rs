//! Handles of aggregations: a name and its types, checked once.
//!
//! [`Client::call`] takes a name and two types, and only a call can tell whether they belong together. Where a program has the
//! [`Service`] itself, it can ask for a handle when it starts.

use crate::call::CallBuilder;
use crate::client::Client;
use crate::service::Service;
use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use treefold_operators::Body;

/// An aggregation with the types of its parameters and of its answer; see [`Service::handle`].
///
/// ```
/// use treefold::operators::merge::Count;
/// use treefold::operators::merging;
/// use treefold::{CallHandle, HandleError, Partition, Service};
///
/// let lines = merging("lines", |_: &Partition, word: &String| Ok(Count(word.len() as u64)));
/// let service = Service::new("logs").aggregation("matching", lines);
///
/// let matching: CallHandle<String, Count> = service.handle("matching")?;
/// assert_eq!(matching.kind(), "logs/matching");
/// assert!(service.handle::<String, Count>("matchin").is_err(), "no such name");
/// assert!(service.handle::<u64, Count>("matching").is_err(), "its parameters are no number");
/// # async fn example(matching: CallHandle<String, Count>, client: treefold::Client) -> Result<(), treefold::Error> {
/// let count = matching.call(&client, &"error".to_string()).await?.into_value()?;
/// # Ok(())
/// # }
/// # Ok::<(), HandleError>(())
/// ```
pub struct CallHandle<P, T> {
    kind: Arc<str>,
    types: PhantomData<fn(&P) -> T>,
}

/// Why a service has no handle with a name and two types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandleError {
    /// The service lacks the aggregation.
    #[error("the service {service:?} has no aggregation {aggregation:?}; it has: {}", known.join(", "))]
    Unknown {
        /// The service.
        service: String,
        /// The name that was asked for.
        aggregation: String,
        /// The names that the service has.
        known: Vec<String>,
    },
    /// The aggregation has other types.
    #[error("the {which} of {kind:?} are of the type {has}, not {given}")]
    Types {
        /// The service and the aggregation.
        kind: String,
        /// `parameters` or `partials`.
        which: &'static str,
        /// The type that the aggregation has.
        has: &'static str,
        /// The type that was asked for.
        given: &'static str,
    },
}

impl<P: Body, T: Body> CallHandle<P, T> {
    /// Starts building a call, as [`Client::call`] does.
    pub fn call(&self, client: &Client, params: &P) -> CallBuilder<'static, T> {
        client.call(&self.kind, params)
    }
}

impl<P, T> CallHandle<P, T> {
    /// The service and the aggregation, as `service/aggregation`.
    pub fn kind(&self) -> &str {
        &self.kind
    }
}

impl<P, T> Clone for CallHandle<P, T> {
    fn clone(&self) -> Self {
        Self { kind: Arc::clone(&self.kind), types: PhantomData }
    }
}

impl<P, T> fmt::Debug for CallHandle<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallHandle").field(&self.kind).finish()
    }
}

impl Service {
    /// A handle of one of the service's aggregations, for calls with parameters `P` and answers `T`.
    ///
    /// The types of operators with an encoding of their own ([`Service::operator`]) are not known, and not checked.
    ///
    /// # Errors
    /// If the service lacks the aggregation, or the aggregation has other types.
    pub fn handle<P: Body, T: Body>(&self, aggregation: &str) -> Result<CallHandle<P, T>, HandleError> {
        let kind = format!("{}/{aggregation}", self.name());
        let Some(operator) = self.operator_of(aggregation) else {
            return Err(HandleError::Unknown {
                service: self.name().to_owned(),
                aggregation: aggregation.to_owned(),
                known: self.aggregations().map(str::to_owned).collect(),
            });
        };
        let asked = [("parameters", of::<P>()), ("partials", of::<T>())];
        let has = operator.types().into_iter().flatten();
        match asked.into_iter().zip(has).find(|((_, (asked, _)), (has, _))| asked != has) {
            Some(((which, (_, given)), (_, has))) => Err(HandleError::Types { kind, which, has, given }),
            None => Ok(CallHandle { kind: kind.into(), types: PhantomData }),
        }
    }
}

fn of<T: 'static>() -> (TypeId, &'static str) {
    (TypeId::of::<T>(), std::any::type_name::<T>())
}
