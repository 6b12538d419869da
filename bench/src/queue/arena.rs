//! Runs the rounds of all contenders on one machine.

use std::time::Duration;

use reveille_pg::Schema;
use sqlx::PgConnection;
use tokio::process::Command;
use traffic::{Outcome, READY, Workload};

use super::contender::{Contender, PGMQ, RABBIT_CLASSIC, RABBIT_QUORUM};
use super::programs::Programs;
use super::rabbit::Rabbit;
use crate::Result;
use crate::comparison::Named as _;
use crate::meter::{Cost, Meter};
use crate::player::Player;
use crate::processes::{family_seconds, resident_mb, seconds};
use crate::serve::Serve;
use crate::server::Server;

/// Connections of Reveille to the database: its default.
const CONNECTIONS: u32 = 10;

/// How long a part of a round may take: twice as long as the longest should take.
const PLAYED_WITHIN: Duration = Duration::from_secs(900);

/// The arguments of every workload.
pub(super) struct Arena<'a> {
    pub(super) server: &'a Server,
    pub(super) programs: Programs,
    /// `None` without peers.
    pub(super) rabbit: Option<Rabbit>,
    pub(super) quick: bool,
    /// The number of rounds; `None`: the default of the workload.
    pub(super) rounds: Option<usize>,
}

/// Processor seconds of processes; `None` if there is no such process, or the system does not report them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Processor {
    /// The process that sends and receives; it contains the library, if that is measured.
    pub(super) client: Option<f64>,
    /// `reveille serve` or RabbitMQ.
    pub(super) server: Option<f64>,
    pub(super) database: Option<f64>,
}

/// The result of a part of a round.
pub(super) struct Played {
    pub(super) outcome: Outcome,
    /// The cost to the database, of all processes.
    pub(super) cost: Cost,
    pub(super) processor: Processor,
}

/// A contender that is ready for its round.
pub(super) struct Round<'a> {
    arena: &'a Arena<'a>,
    contender: Contender,
    schema: Schema,
    serves: Vec<Serve>,
    pub(super) player: Player,
}

impl Arena<'_> {
    /// The value for a quick run or that for a full one.
    pub(super) fn choose<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The number of rounds.
    pub(super) fn rounds(&self, quick: usize, full: usize) -> usize {
        self.rounds.unwrap_or(self.choose(quick, full))
    }

    /// The contenders of Reveille that are measured, and the peers unless `--no-peers` is set.
    pub(super) fn with_peers(&self, own: &[Contender]) -> Vec<Contender> {
        let peers: &[Contender] = if self.rabbit.is_some() { &[RABBIT_QUORUM, RABBIT_CLASSIC, PGMQ] } else { &[] };
        [self.own(own).as_slice(), peers].concat()
    }

    /// The contenders of Reveille that are measured: with `--library`, none that need a server.
    pub(super) fn own(&self, own: &[Contender]) -> Vec<Contender> {
        own.iter().copied().filter(|contender| self.programs.server.is_some() || contender.servers() == 0).collect()
    }

    /// Starts a contender in a schema of its own and waits until it is ready.
    pub(super) async fn prepare(&self, contender: Contender, workload: &Workload) -> Result<Round<'_>> {
        let schema = self.server.new_schema()?;
        let mut serves = Vec::new();
        for _ in 0..contender.servers() {
            let program = self.programs.server.as_ref().ok_or("the server is not built")?;
            serves.push(Serve::start(program, self.server, &schema).await?);
        }
        let mut command = match contender {
            Contender::Own(own) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["queue-round", "--system", &own.argument()]);
                command.args(["--schema", schema.name(), "--connections", &CONNECTIONS.to_string()]);
                serves.iter().for_each(|serve| {
                    command.args(["--server", &serve.address().to_string()]);
                });
                command.env("DATABASE_URL", self.server.url());
                command
            }
            Contender::Peer(peer) => {
                let mut command = Command::new(self.programs.peers.as_ref().ok_or("the peers are not built")?);
                command.args(["--system", peer.argument(), "--prefix", schema.name()]);
                let rabbit = self.rabbit.as_ref().filter(|_| contender.is_rabbit());
                command.env("BROKER_URL", rabbit.map_or(self.server.url(), Rabbit::url));
                command
            }
        };
        command.args(["--workload", &serde_json::to_string(workload)?]);
        let player = Player::start(contender.name(), command, READY).await?;
        Ok(Round { arena: self, contender, schema, serves, player })
    }

    /// Plays one round of one workload.
    pub(super) async fn play(&self, contender: Contender, workload: &Workload) -> Result<Played> {
        let mut round = self.prepare(contender, workload).await?;
        let played = round.play().await?;
        round.end().await?;
        Ok(played)
    }
}

impl Round<'_> {
    /// Plays the next part of the round.
    pub(super) async fn play(&mut self) -> Result<Played> {
        self.play_while(async |_| Ok(())).await
    }

    /// Plays the next part of the round and runs `meanwhile` at the same time.
    pub(super) async fn play_while(&mut self, meanwhile: impl AsyncFnOnce(&Server) -> Result<()>) -> Result<Played> {
        let meter = Meter::start(self.arena.server).await?;
        let before = self.processor();
        self.player.begin().await?;
        meanwhile(self.arena.server).await?;
        let outcome = self.player.outcome_within(PLAYED_WITHIN).await?;
        let processor = self.processor().since(before);
        Ok(Played { outcome, cost: meter.read().await?, processor })
    }

    fn processor(&self) -> Processor {
        let serves = self.serves.iter().map(|serve| seconds(serve.pid()?)).sum::<Option<f64>>();
        let rabbit = self.arena.rabbit.as_ref().filter(|_| self.contender.is_rabbit());
        Processor {
            client: self.player.pid().and_then(seconds),
            server: rabbit.map_or(serves.filter(|_| !self.serves.is_empty()), |rabbit| family_seconds(rabbit.pid())),
            database: self.arena.server.pid().and_then(family_seconds).filter(|_| rabbit.is_none()),
        }
    }

    /// Memory of `reveille serve`, in MB.
    pub(super) fn held_mb(&self) -> Option<f64> {
        self.serves.iter().map(|serve| resident_mb(serve.pid()?)).sum()
    }

    /// Dead rows in the tables of the schema, which vacuum has not removed.
    pub(super) async fn dead_rows(&self) -> Result<f64> {
        let dead = "select coalesce(sum(n_dead_tup), 0)::float8 from pg_stat_all_tables where schemaname = $1";
        let observer: &mut PgConnection = &mut *self.arena.server.observer().await;
        Ok(sqlx::query_scalar(dead).bind(self.schema.name()).fetch_one(observer).await?)
    }

    /// Ends the round, and removes its schema.
    pub(super) async fn end(self) -> Result<()> {
        self.player.finish().await?;
        for serve in self.serves {
            serve.end().await?;
        }
        self.arena.server.remove(&self.schema).await
    }
}

impl Processor {
    fn since(self, before: Processor) -> Processor {
        let less = |now: Option<f64>, then: Option<f64>| now.zip(then).map(|(now, then)| now - then);
        Processor {
            client: less(self.client, before.client),
            server: less(self.server, before.server),
            database: less(self.database, before.database),
        }
    }
}

/// The name of a new queue. It is unique, because systems without schemas have one set of names.
pub(super) fn new_name() -> String {
    format!("q{:08x}", fastrand::u32(..))
}
