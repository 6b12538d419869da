//! Configuring and starting a worker.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::Worker;
use super::counts::Tally;
use super::handler::{Handler, HandlerOutput};
use super::handlers::Handlers;
use super::run::Run;
use super::slots::{PIPELINED_REPORTS, Slots};
use super::step::Step;
use crate::claim::ClaimRequest;
use crate::complete::Failure;
use crate::error::{Error, Result};
use crate::flow::Flow;

/// The default lease: a crash is noticed within this time, and ten seconds without the database do not lose the lease.
const LEASE: Duration = Duration::from_secs(30);
/// The default number of concurrent handlers.
const CONCURRENCY: usize = 32;
/// The most concurrent handlers, and pipelined reports: each has a lease to extend.
const CONCURRENCY_MAX: usize = 10_000;

/// The configuration of a worker.
#[must_use = "nothing runs before it is started"]
pub struct WorkerBuilder {
    flow: Flow,
    request: ClaimRequest,
    concurrency: usize,
    pipelined_reports: usize,
    handlers: Handlers,
}

impl Flow {
    /// Configures a worker. The history shows its name.
    pub fn worker(&self, name: impl Into<String>) -> WorkerBuilder {
        let request = ClaimRequest { name: name.into(), namespaces: Vec::new(), steps: None, lease: LEASE };
        WorkerBuilder {
            flow: self.clone(),
            request,
            concurrency: CONCURRENCY,
            pipelined_reports: PIPELINED_REPORTS,
            handlers: Handlers::new(),
        }
    }
}

impl WorkerBuilder {
    /// Adds a namespace to claim from.
    pub fn namespace(mut self, namespace: impl Into<String>) -> WorkerBuilder {
        self.request.namespaces.push(namespace.into());
        self
    }

    /// Adds step names to claim. Without any the worker claims all steps of its namespaces.
    pub fn steps<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> WorkerBuilder {
        self.request.steps.get_or_insert_default().extend(names.into_iter().map(Into::into));
        self
    }

    /// The most handlers that run at the same time; default 32.
    pub fn concurrency(mut self, handlers: usize) -> WorkerBuilder {
        self.concurrency = handlers;
        self
    }

    /// How many reports may be in progress whose handlers' slots are free: the worker claims and starts the next steps
    /// while they are committed. Default 64; 0 keeps every slot taken until the outcome of its report is known.
    ///
    /// A slot also stays taken while a report has more than 64 KiB, is sent again after an error, or its lease ends
    /// within a second.
    pub fn pipelined_reports(mut self, reports: usize) -> WorkerBuilder {
        self.pipelined_reports = reports;
        self
    }

    /// The lease: how long after the last heartbeat the steps of a dead worker are retried. Default 30 seconds. A
    /// heartbeat is sent every third of it.
    pub fn lease(mut self, lease: Duration) -> WorkerBuilder {
        self.request.lease = lease;
        self
    }

    /// Registers an async function as the handler of a callable. A step whose template names no callable has its own
    /// name as callable.
    ///
    /// ```no_run
    /// # #[derive(serde::Deserialize)] struct Order { id: u64 }
    /// # fn example(flow: reveille_flow::Flow) -> reveille_flow::Result<reveille_flow::Worker> {
    /// use reveille_flow::{Failure, Step};
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
        O: HandlerOutput + 'static,
    {
        self.handlers = self.handlers.handle(callable, function);
        self
    }

    /// Registers a handler for a callable.
    pub fn register(mut self, callable: impl Into<String>, handler: impl Handler) -> WorkerBuilder {
        self.handlers = self.handlers.register(callable, handler);
        self
    }

    /// Sets the handlers, replacing those registered before.
    pub fn handlers(mut self, handlers: Handlers) -> WorkerBuilder {
        self.handlers = handlers;
        self
    }

    /// Starts the worker. It claims steps at once.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it has no namespace or no handler, two handlers for one callable, or an invalid lease,
    /// concurrency or number of pipelined reports.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(self) -> Result<Worker> {
        let WorkerBuilder { flow, request, concurrency, pipelined_reports, handlers } = self;
        request.check()?;
        let registry = handlers.registry()?;
        if !(1..=CONCURRENCY_MAX).contains(&concurrency) {
            let reason = format!("must be between 1 and {CONCURRENCY_MAX}, got {concurrency}");
            return Err(Error::invalid("concurrency", reason));
        }
        if pipelined_reports > CONCURRENCY_MAX {
            let reason = format!("must be at most {CONCURRENCY_MAX}, got {pipelined_reports}");
            return Err(Error::invalid("pipelined_reports", reason));
        }
        let tally = Arc::new(Tally::default());
        let (end, ending) = oneshot::channel();
        let run = Run::new(flow, request, registry, Slots::new(concurrency, pipelined_reports), tally.clone());
        Ok(Worker { tally, end, ended: tokio::spawn(run.until(ending)) })
    }
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder").field("request", &self.request).field("handlers", &self.handlers).finish()
    }
}
