//! The peers, each used as its documentation recommends.

use std::sync::Arc;

use clap::ValueEnum;
use duroxide::providers::Provider;
use workloads::Result;

/// A published provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// Polls.
    DuroxidePg,
    /// Waits for notifications.
    DuroxidePgOpt,
}

impl Peer {
    /// Connects and migrates the schema.
    pub(crate) async fn connect(self, url: &str, schema: &str) -> Result<Arc<dyn Provider>> {
        Ok(match self {
            Peer::DuroxidePg => Arc::new(duroxide_pg::PostgresProvider::new_with_schema(url, Some(schema)).await?),
            Peer::DuroxidePgOpt => {
                let waits = duroxide_pg_opt::LongPollConfig { enabled: true, ..Default::default() };
                Arc::new(duroxide_pg_opt::PostgresProvider::new_with_options(url, Some(schema), waits).await?)
            }
        })
    }
}
