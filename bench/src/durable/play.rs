//! One round of ours or of the ceiling, as a process of its own that another one commands: see [`workloads::play`].

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use reveille_durable::{AggressiveOn, LongPollConfig, Options, PostgresProvider, Strategy};
use reveille_durable_memory::{MemoryProvider, Polling};
use tokio::io::{BufReader, stdin, stdout};
use tokio::time::{sleep, timeout};
use workloads::{System, Workload};

use super::contender::Own;
use crate::Result;

/// How long the listener may take to connect.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two checks of that.
const GLANCE: Duration = Duration::from_millis(2);
/// Longer than any orchestration; the workload has a shorter timeout.
const FOREVER: Duration = Duration::from_secs(3_600);

/// Arguments of the process, the same as those of the peers'.
#[derive(Args)]
pub(crate) struct RoundArguments {
    #[arg(long, value_enum)]
    system: Own,
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    #[arg(long)]
    schema: String,
    #[arg(long, value_name = "JSON", value_parser = |text: &str| serde_json::from_str::<Workload>(text))]
    workload: Workload,
    #[arg(long)]
    connections: u32,
}

/// The process.
pub(crate) async fn play(arguments: RoundArguments) -> Result<()> {
    let defaults = LongPollConfig::enabled();
    let system = match arguments.system {
        Own::Memory => System::new(Arc::new(MemoryProvider::new(Polling::Long))),
        Own::Reveille => System::new(Arc::new(connect(&arguments, defaults).await?)),
        Own::WaitedAcks => {
            System::new(Arc::new(start(&arguments, options(&arguments, defaults).pipelined_acks(0)).await?))
        }
        Own::Broadcast => {
            let broadcast = LongPollConfig { strategy: Strategy::Broadcast, ..defaults };
            System::new(Arc::new(connect(&arguments, broadcast).await?))
        }
        Own::EveryWake => {
            let every_wake = LongPollConfig { aggressive_on: AggressiveOn::EveryWake, ..defaults };
            System::new(Arc::new(connect(&arguments, every_wake).await?))
        }
        Own::Woken => {
            let provider = connect(&arguments, defaults).await?;
            System::new(Arc::new(provider.clone())).waiting_by(Arc::new(move |instance| {
                let provider = provider.clone();
                Box::pin(async move {
                    let ended = provider.wait_for_completion(&instance, FOREVER).await?;
                    ended.ok_or_else(|| "no end in time".into())
                })
            }))
        }
    };
    workloads::play(arguments.workload, system, BufReader::new(stdin()), stdout()).await
}

async fn connect(arguments: &RoundArguments, long_poll: LongPollConfig) -> Result<PostgresProvider> {
    start(arguments, options(arguments, long_poll)).await
}

fn options(arguments: &RoundArguments, long_poll: LongPollConfig) -> Options {
    let pool = reveille_pg::Options::default().max_connections(arguments.connections);
    Options::default().schema(arguments.schema.clone()).long_poll(long_poll).pool(pool)
}

/// Our provider, once it receives notifications.
async fn start(arguments: &RoundArguments, options: Options) -> Result<PostgresProvider> {
    let provider = PostgresProvider::connect(&arguments.database_url, options).await?;
    let connected = async {
        while !provider.health().is_connected() {
            sleep(GLANCE).await;
        }
    };
    timeout(PATIENCE, connected).await.map_err(|_| "the listener is not connected")?;
    Ok(provider)
}
