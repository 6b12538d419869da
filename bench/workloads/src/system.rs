//! What is measured: a provider, and how its users wait for a result.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::{Client, OrchestrationStatus};
use tokio::time::timeout;

use crate::Result;
use crate::signals::{Expected, has_ended, read_until_ended};

/// A provider's own way to wait for the end of an instance.
pub type Wait = Arc<dyn Fn(String) -> Waiting + Send + Sync>;
type Waiting = Pin<Box<dyn Future<Output = Result<OrchestrationStatus>> + Send>>;

/// A provider as its users use it.
#[derive(Clone)]
pub struct System {
    provider: Arc<dyn Provider>,
    client: Arc<Client>,
    wait: Option<Wait>,
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("waits_by_itself", &self.wait.is_some()).finish_non_exhaustive()
    }
}

impl System {
    /// A provider whose users wait by duroxide's client, which polls.
    pub fn new(provider: Arc<dyn Provider>) -> System {
        System { client: Arc::new(Client::new(Arc::clone(&provider))), provider, wait: None }
    }

    /// The same with the provider's own way to wait.
    pub fn waiting_by(self, wait: Wait) -> System {
        System { wait: Some(wait), ..self }
    }

    pub(crate) fn provider(&self) -> &Arc<dyn Provider> {
        &self.provider
    }

    /// Starts an orchestration, waits for its end and returns its output; anything but its success is an error.
    pub(crate) async fn complete(
        &self,
        instance: &str,
        orchestration: &str,
        input: &str,
        patience: Duration,
    ) -> Result<String> {
        self.client.start_orchestration(instance, orchestration, input).await?;
        let status = match &self.wait {
            None => self.client.wait_for_orchestration(instance, patience).await?,
            Some(wait) => timeout(patience, wait(instance.to_owned())).await??,
        };
        output(instance, status)
    }

    /// Starts an orchestration, waits for a signal of its last turn, and reads its status once. Returns its output;
    /// `None` if the ack of that turn has not committed yet: [`System::verify`] waits for it.
    pub(crate) async fn complete_by_signal(
        &self,
        instance: &str,
        orchestration: &str,
        input: &str,
        mut ended: Expected,
        patience: Duration,
    ) -> Result<Option<String>> {
        self.client.start_orchestration(instance, orchestration, input).await?;
        timeout(patience, ended.received()).await??;
        let status = self.client.get_orchestration_status(instance).await?;
        if has_ended(&status) { output(instance, status).map(Some) } else { Ok(None) }
    }

    /// Reads the status of an instance until it has ended. Returns its output, and the number of reads.
    pub(crate) async fn verify(&self, instance: &str, patience: Duration) -> Result<(String, usize)> {
        let reading = read_until_ended(|| async { Ok(self.client.get_orchestration_status(instance).await?) });
        let (status, reads) = timeout(patience, reading).await??;
        Ok((output(instance, status)?, reads))
    }
}

fn output(instance: &str, status: OrchestrationStatus) -> Result<String> {
    match status {
        OrchestrationStatus::Completed { output, .. } => Ok(output),
        OrchestrationStatus::Failed { details, .. } => Err(details.display_message().into()),
        other => Err(format!("{instance} did not end: {other:?}").into()),
    }
}
