//! How a worker is described and started.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::Worker;
use super::counts::Tally;
use super::handler::{Answer, Handler};
use super::handlers::Handlers;
use super::run::Run;
use super::step::Step;
use crate::claim::ClaimRequest;
use crate::complete::Failure;
use crate::error::{Error, Result};
use crate::flow::Flow;

/// How long a step is a worker's without a word, unless it says otherwise: a crash is noticed that late at most, and ten seconds without the database are borne.
const LEASE: Duration = Duration::from_secs(30);
/// Handlers at a time, unless it says otherwise.
const CONCURRENCY: usize = 32;
/// Handlers at a time at most: each has a lease that has to be kept.
const CONCURRENCY_MAX: usize = 10_000;

/// A worker to be started.
#[must_use = "nothing runs before it is started"]
pub struct WorkerBuilder {
    flow: Flow,
    claimant: ClaimRequest,
    concurrency: usize,
    handlers: Handlers,
}

impl Flow {
    /// A worker of that name, which is what the history calls it.
    pub fn worker(&self, name: impl Into<String>) -> WorkerBuilder {
        let claimant = ClaimRequest { name: name.into(), namespaces: Vec::new(), steps: None, lease: LEASE };
        WorkerBuilder { flow: self.clone(), claimant, concurrency: CONCURRENCY, handlers: Handlers::new() }
    }
}

impl WorkerBuilder {
    /// Works in this namespace, beside those that were named before.
    pub fn namespace(mut self, namespace: impl Into<String>) -> WorkerBuilder {
        self.claimant.namespaces.push(namespace.into());
        self
    }

    /// Claims only steps of these names, beside those that were named before. Without any it claims all steps of its namespaces.
    pub fn steps<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> WorkerBuilder {
        self.claimant.steps.get_or_insert_default().extend(names.into_iter().map(Into::into));
        self
    }

    /// How many handlers may be at work at a time; 32 if nothing is said.
    pub fn concurrency(mut self, handlers: usize) -> WorkerBuilder {
        self.concurrency = handlers;
        self
    }

    /// How long a step is this worker's if it is not heard of; 30 seconds if nothing is said. It lets itself be heard every third of that.
    pub fn lease(mut self, lease: Duration) -> WorkerBuilder {
        self.claimant.lease = lease;
        self
    }

    /// Has an async function carry out the steps whose template names this callable, which is the step's own name where the template names none.
    ///
    /// ```no_run
    /// # #[derive(serde::Deserialize)] struct Order { id: u64 }
    /// # fn example(flow: flow::Flow) -> flow::Result<flow::Worker> {
    /// use flow::{Failure, Step};
    ///
    /// async fn charge(step: Step<Order>) -> Result<u64, Failure> {
    ///     let price: u64 = step.result("price")?;
    ///     Ok(price * step.context.id)
    /// }
    ///
    /// flow.worker("till-1").namespace("shop").handle("charge", charge).start()
    /// # }
    /// ```
    pub fn handle<F, C, W, O>(mut self, callable: impl Into<String>, function: F) -> WorkerBuilder
    where
        F: Fn(Step<C>) -> W + Send + Sync + 'static,
        C: DeserializeOwned + Send + 'static,
        W: Future<Output = Result<O, Failure>> + Send + 'static,
        O: Answer + 'static,
    {
        self.handlers = self.handlers.handle(callable, function);
        self
    }

    /// Has a handler carry out the steps whose template names this callable.
    pub fn register(mut self, callable: impl Into<String>, handler: impl Handler) -> WorkerBuilder {
        self.handlers = self.handlers.register(callable, handler);
        self
    }

    /// Has these handlers, in place of those that were given before.
    pub fn handlers(mut self, handlers: Handlers) -> WorkerBuilder {
        self.handlers = handlers;
        self
    }

    /// Starts it. It claims at once.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it has no namespace or no handler, two handlers for one callable, or a lease or concurrency that cannot be meant.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(self) -> Result<Worker> {
        let WorkerBuilder { flow, claimant, concurrency, handlers } = self;
        claimant.check()?;
        let registry = handlers.registry()?;
        if !(1..=CONCURRENCY_MAX).contains(&concurrency) {
            let reason = format!("it is {concurrency}; it must be between 1 and {CONCURRENCY_MAX}");
            return Err(Error::invalid("concurrency", reason));
        }
        let tally = Arc::new(Tally::default());
        let (end, ending) = oneshot::channel();
        let run = Run::new(flow, claimant, registry, concurrency, tally.clone());
        Ok(Worker { tally, end, ended: tokio::spawn(run.until(ending)) })
    }
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder").field("claimant", &self.claimant).field("handlers", &self.handlers).finish()
    }
}
