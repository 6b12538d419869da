//! A consumer that runs a handler for each batch.

use std::fmt::Display;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::consume::ack::Ack;
use crate::consume::pop::{Batch, Pop};
use crate::error::{Error, Result};
use crate::message::Message;
use crate::queues::Queues;

/// How long one pop waits. A waiting pop costs nothing; this bounds how late an expired deadline is noticed.
const WAIT: Duration = Duration::from_secs(60);
/// Pause after a transient error, such as a lost connection.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Pops batches and runs a handler for each: see [`Queues::consumer`].
#[derive(Debug)]
#[must_use = "a consumer does nothing until it is run"]
pub struct Consumer {
    queues: Queues,
    pop: Pop,
    concurrency: usize,
}

impl Queues {
    /// A consumer of what `pop` describes.
    ///
    /// ```no_run
    /// # use reveille_queue::{Message, Pop, Queues, Source};
    /// # async fn example(queues: Queues) -> reveille_queue::Result<()> {
    /// let handler = async |messages: Vec<Message>| {
    ///     for message in messages {
    ///         assert!(message.payload.to_string().starts_with('{'));
    ///     }
    ///     Ok::<(), std::io::Error>(())
    /// };
    /// let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
    /// queues.consumer(Pop::new(Source::queue("orders"))).run(ctrl_c, handler).await
    /// # }
    /// ```
    pub fn consumer(&self, pop: Pop) -> Consumer {
        Consumer { queues: self.clone(), pop, concurrency: 1 }
    }
}

impl Consumer {
    /// Runs up to `handlers` handlers at the same time; 1 by default, and at least. Messages of one partition are never
    /// in two handlers of the same consumer group.
    pub fn concurrency(mut self, handlers: usize) -> Consumer {
        self.concurrency = handlers.max(1);
        self
    }

    /// Runs the handler for each batch until `shutdown` completes; then waits for the handlers that are running.
    ///
    /// `Ok` from the handler acks the batch. `Err`, or a panic, fails it with that text: a retry is charged, and the
    /// messages are redelivered up to the queue's `retryLimit`. A handler has to finish before the lease of its batch
    /// expires ([`Pop::lease`]).
    ///
    /// Transient errors are logged and retried.
    ///
    /// # Errors
    /// Other errors of [`Queues::pop`], after the running handlers have finished. `Ok` after `shutdown`, and after
    /// [`Queues::close`].
    ///
    /// # Cancel safety
    /// Dropping the future aborts the handlers. Their messages are redelivered when the leases expire.
    pub async fn run<H, F, E>(self, shutdown: impl Future<Output = ()>, handler: H) -> Result<()>
    where
        H: Fn(Vec<Message>) -> F,
        F: Future<Output = std::result::Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(self.concurrency));
        let mut running = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        let result = loop {
            while running.try_join_next().is_some() {}
            let next = async {
                // The semaphore is never closed.
                let permit = permits.clone().acquire_owned().await.ok();
                self.queues.pop(self.pop.clone(), Some(Instant::now() + WAIT)).await.map(|batch| (batch, permit))
            };
            let popped = tokio::select! {
                biased;
                () = &mut shutdown => break Ok(()),
                popped = next => popped,
            };
            match popped {
                Ok((None, _)) => {}
                Ok((Some(mut batch), permit)) => {
                    let messages = std::mem::take(&mut batch.messages);
                    let finish = Finish::new(self.queues.clone(), &batch, &messages);
                    let handled = handler(messages);
                    running.spawn(async move {
                        finish.after(handled).await;
                        drop(permit);
                    });
                }
                Err(Error::Wake(reveille_wake::Error::Closed { .. })) => break Ok(()),
                Err(error) if error.is_transient() => {
                    tracing::warn!(error = reveille_pg::causes(&error), "pop failed; it is retried");
                    tokio::select! {
                        () = &mut shutdown => break Ok(()),
                        () = sleep(RETRY_AFTER) => {}
                    }
                }
                Err(error) => break Err(error),
            }
        };
        while running.join_next().await.is_some() {}
        result
    }
}

/// What to do with a batch after its handler.
struct Finish {
    queues: Queues,
    completed: Vec<Ack>,
    failed: Vec<Ack>,
}

impl Finish {
    fn new(queues: Queues, batch: &Batch, messages: &[Message]) -> Finish {
        let (completed, failed) = (batch.acks_completed(messages), batch.acks_failed(messages, None));
        Finish { queues, completed, failed }
    }

    async fn after<E: Display + Send + 'static>(
        self,
        handled: impl Future<Output = std::result::Result<(), E>> + Send + 'static,
    ) {
        // A task of its own, so that a panic fails the batch; in a set, so that it is aborted with this one.
        let mut task = JoinSet::new();
        task.spawn(handled);
        let failure = match task.join_next().await {
            Some(Ok(Ok(()))) => None,
            Some(Ok(Err(error))) => Some(error.to_string()),
            Some(Err(_)) | None => Some("the handler panicked".to_owned()),
        };
        let acks = match failure {
            None => self.completed,
            Some(error) => self.failed.into_iter().map(|ack| Ack { error: Some(error.clone()), ..ack }).collect(),
        };
        match self.queues.ack(acks).await {
            Ok(acked) => {
                if let Some(error) = acked.iter().find_map(|acked| acked.outcome.err()) {
                    tracing::warn!(%error, "ack rejected; the messages may be redelivered");
                }
            }
            Err(error) => {
                tracing::warn!(error = reveille_pg::causes(&error), "ack failed; the messages are redelivered");
            }
        }
    }
}
