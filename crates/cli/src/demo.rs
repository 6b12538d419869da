//! `--demo`: something to look at.
//!
//! Producers, consumers and workers speak to the server over HTTP, like any program; orchestrations run in a runtime
//! beside it. Together they do a few things a second: what succeeds, what lags, what is retried and what fails. Nothing
//! else depends on it, so an error of a part is logged and the part starts again.
//!
//! Everything is in queues `demo.…`, in the namespace `demo`, and in instances `trip-…`, `approval-…` and `demo-clock`.
//! It is kept for an hour.

mod orchestrations;
mod queues;
mod tasks;

use std::{fmt::Display, time::Duration};

use orchestrations::Orchestrations;
use reveille_pg::{Database, Schema};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    client::{self, Client},
    error::Error,
};

/// The pause before a part that failed starts again.
const PAUSE: Duration = Duration::from_secs(2);

/// A running demo. Dropping it ends its producers, consumers and workers.
pub(crate) struct Demo {
    parts: JoinSet<()>,
    orchestrations: Orchestrations,
}

impl Demo {
    /// Starts it on the server at `site`, and its orchestrations in `schema`.
    ///
    /// # Errors
    /// If the runtime cannot start.
    pub(crate) async fn start(site: &str, database: &Database, schema: &Schema) -> Result<Demo, Error> {
        let address = site.parse().map_err(|error| Error::Setting { key: "--listen", source: Box::new(error) })?;
        let client = Client::new(address, None)?;
        let orchestrations = Orchestrations::start(database, schema).await?;
        let durable = orchestrations.client();
        let mut parts = JoinSet::new();
        keep(&mut parts, "starter", move || orchestrations::start_all(durable.clone()));
        parts.spawn(async move {
            while let Err(error) = prepare(&client).await {
                tracing::warn!(%error, "the demo cannot begin: it needs a server that trusts this machine");
                sleep(PAUSE).await;
            }
            // Ends with the set that it is in.
            clients(&client).join_all().await;
        });
        Ok(Demo { parts, orchestrations })
    }

    /// Stops everything that it started.
    pub(crate) async fn stop(mut self) {
        self.parts.shutdown().await;
        self.orchestrations.stop().await;
    }
}

/// Creates queues, templates and the schedule. Repeating it changes nothing.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub(crate) async fn prepare(client: &Client) -> Result<(), client::Error> {
    queues::configure(client).await?;
    tasks::prepare(client).await
}

/// Starts everything that speaks to the server over HTTP. Dropping the set ends it.
pub(crate) fn clients(client: &Client) -> JoinSet<()> {
    let mut parts = JoinSet::new();
    let own = || client.clone();
    let one = own();
    keep(&mut parts, "billing", move || queues::bill(one.clone()));
    let one = own();
    keep(&mut parts, "audit", move || queues::audit(one.clone()));
    let one = own();
    keep(&mut parts, "mail", move || queues::mail(one.clone()));
    for number in 1..=tasks::WORKERS {
        let one = own();
        keep(&mut parts, "worker", move || tasks::work(one.clone(), number));
    }
    let one = own();
    keep(&mut parts, "orders", move || queues::order(one.clone()));
    let one = own();
    keep(&mut parts, "submitter", move || tasks::submit_all(one.clone()));
    parts
}

/// Runs a part until the demo ends, again after every error.
fn keep<F, E>(parts: &mut JoinSet<()>, part: &'static str, run: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = Result<(), E>> + Send,
    E: Display,
{
    parts.spawn(async move {
        loop {
            if let Err(error) = run().await {
                failed(part, &error);
            }
            sleep(PAUSE).await;
        }
    });
}

fn failed(part: &str, error: &dyn Display) {
    tracing::debug!(part, %error, "a part of the demo failed and starts again");
}
