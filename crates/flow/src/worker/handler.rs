//! The user's code: what carries out a step.

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
use crate::exact::Json;

/// What carries out steps. An async function or closure is enough for most: see [`WorkerBuilder::handle`](super::WorkerBuilder::handle).
///
/// Its future is dropped at its next `await` when the step is not the worker's any more, takes longer than its timeout, or the worker stops. What computes for long or blocks belongs on a thread
/// of its own (`tokio::task::spawn_blocking`), where it can ask its [`Signal`](super::Signal).
pub trait Handler: Send + Sync + 'static {
    /// What the task works on, as this handler reads it. A context of another shape fails the step for good.
    type Context: DeserializeOwned + Send + 'static;
    /// What it answers: anything that is JSON, or an [`Handled`].
    type Output: Answer;

    /// Carries out one attempt of a step.
    fn handle(&self, step: Step<Self::Context>) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}

/// How an attempt of a handler ended that may leave off before it is done.
#[derive(Debug)]
pub enum Handled<T> {
    /// The step is done, with this result.
    Done(T),
    /// It is not, and goes on from this checkpoint when somebody claims it next. See [`Step::yield_with`].
    Yielded(Box<RawValue>),
}

/// What a handler may answer: anything that is JSON, which completes the step, or an [`Handled`].
pub trait Answer {
    /// As the engine is told.
    ///
    /// # Errors
    /// If it is not JSON.
    fn said(self) -> Result<AttemptResult, Failure>;
}

impl<T: Serialize> Answer for T {
    fn said(self) -> Result<AttemptResult, Failure> {
        let result = Json::from_serialize(&self);
        result.map(AttemptResult::Complete).map_err(|error| Failure::shape(format!("the result is not JSON: {error}")))
    }
}

impl<T: Serialize> Answer for Handled<T> {
    fn said(self) -> Result<AttemptResult, Failure> {
        match self {
            Handled::Done(result) => result.said(),
            Handled::Yielded(checkpoint) => Ok(AttemptResult::Yielded(checkpoint)),
        }
    }
}

/// A handler at work.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<AttemptResult, Failure>> + Send>>;

/// A handler whose types are forgotten.
pub(super) trait Carry: Send + Sync {
    fn carry(self: Arc<Self>, claimed: ClaimedStep, link: Link) -> Work;
}

impl<H: Handler> Carry for H {
    fn carry(self: Arc<Self>, claimed: ClaimedStep, link: Link) -> Work {
        Box::pin(async move { self.handle(Step::read(claimed, link)?).await?.said() })
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
    O: Answer,
{
    type Context = C;
    type Output = O;

    fn handle(&self, step: Step<C>) -> impl Future<Output = Result<O, Failure>> + Send {
        (self.call)(step)
    }
}
