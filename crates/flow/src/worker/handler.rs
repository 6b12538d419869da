//! The user's code that runs a step.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::step::{Link, Step};
use crate::claim::ClaimedStep;
use crate::complete::{AttemptResult, Failure};
use crate::json::Json;

/// Runs steps. An async function or closure is enough in most cases: see
/// [`WorkerBuilder::handle`](super::WorkerBuilder::handle).
///
/// The future is dropped at its next `await` if the lease is lost, the timeout is exceeded or the worker stops. Long
/// computations and blocking calls belong on a blocking thread (`tokio::task::spawn_blocking`), which can check its
/// [`Signal`](super::Signal).
pub trait Handler: Send + Sync + 'static {
    /// The type of the task's context. A context that does not deserialize to it fails the step permanently.
    type Context: DeserializeOwned + Send + 'static;
    /// The type of the result: anything serializable, or [`Handled`].
    type Output: HandlerOutput;

    /// Runs one attempt of a step.
    fn handle(&self, step: Step<Self::Context>) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}

/// The result of a handler that may yield before the step is complete.
#[derive(Debug)]
pub enum Handled<T> {
    /// The step is complete, with this result.
    Done(T),
    /// The step is released and resumes from this checkpoint. See [`Step::yield_with`].
    Yielded(Box<RawValue>),
}

/// What a handler may return: anything serializable, which completes the step, or [`Handled`].
pub trait HandlerOutput {
    /// The report to the engine.
    ///
    /// # Errors
    /// If the result cannot be serialized.
    fn into_result(self) -> Result<AttemptResult, Failure>;
}

impl<T: Serialize> HandlerOutput for T {
    fn into_result(self) -> Result<AttemptResult, Failure> {
        let result = Json::from_serialize(&self);
        result
            .map(AttemptResult::Complete)
            .map_err(|error| Failure::shape(format!("cannot serialize the result: {error}")))
    }
}

impl<T: Serialize> HandlerOutput for Handled<T> {
    fn into_result(self) -> Result<AttemptResult, Failure> {
        match self {
            Handled::Done(result) => result.into_result(),
            Handled::Yielded(checkpoint) => Ok(AttemptResult::Yielded(checkpoint)),
        }
    }
}

/// A running handler.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<AttemptResult, Failure>> + Send>>;

/// A handler without its types.
pub(super) trait RunHandler: Send + Sync {
    fn run(self: Arc<Self>, claimed: ClaimedStep, link: Link) -> Work;
}

impl<H: Handler> RunHandler for H {
    fn run(self: Arc<Self>, claimed: ClaimedStep, link: Link) -> Work {
        Box::pin(async move { self.handle(Step::read(claimed, link)?).await?.into_result() })
    }
}

/// A function as a handler.
pub(super) struct Function<F, C> {
    call: F,
    context: PhantomData<fn(C)>,
}

impl<F, C> Function<F, C> {
    pub(super) fn new(call: F) -> Self {
        Function { call, context: PhantomData }
    }
}

impl<F, C, W, O> Handler for Function<F, C>
where
    F: Fn(Step<C>) -> W + Send + Sync + 'static,
    C: DeserializeOwned + Send + 'static,
    W: Future<Output = Result<O, Failure>> + Send,
    O: HandlerOutput,
{
    type Context = C;
    type Output = O;

    fn handle(&self, step: Step<C>) -> impl Future<Output = Result<O, Failure>> + Send {
        (self.call)(step)
    }
}
