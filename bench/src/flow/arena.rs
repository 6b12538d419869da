//! Runs the rounds of all contenders on one server.

use std::time::Duration;

use reveille_pg::Schema;
use tasks::{Outcome, READY};
use tokio::process::Command;

use super::contender::{Awa, Contender, Dbos, Graphile, Http, Library, TunedAwa};
use super::piece::Piece;
use super::programs::Programs;
use crate::Result;
use crate::comparison::{Line, Named as _};
use crate::meter::{Cost, Meter};
use crate::player::Player;
use crate::processes::family_seconds;
use crate::serve::Serve;
use crate::server::Server;

/// Connections of each contender to the database: the default of Reveille.
const CONNECTIONS: u32 = 10;
/// The only schema that awa uses.
const AWA_SCHEMA: &str = "awa";
/// How long a round may take: twice as long as the longest should take.
const PLAYED_WITHIN: Duration = Duration::from_secs(900);

/// The arguments of every workload.
pub(super) struct Arena<'a> {
    pub(super) server: &'a Server,
    pub(super) programs: Programs,
    pub(super) quick: bool,
    /// The number of rounds; `None`: the default of the workload.
    pub(super) rounds: Option<usize>,
    /// Whether to print the statements of each round.
    pub(super) statements: bool,
}

/// The result of a round.
pub(super) struct Played {
    pub(super) outcome: Outcome,
    /// The cost to the database.
    pub(super) cost: Cost,
    /// Processor seconds of the database; NaN if the system does not report them.
    pub(super) processor: f64,
}

/// A contender that is ready for its round.
pub(super) struct Round<'a> {
    arena: &'a Arena<'a>,
    pub(super) schema: Schema,
    serve: Option<Serve>,
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

    /// Both contenders of Reveille, and these peers unless `--no-peers` is set.
    pub(super) fn with_peers(&self, peers: &[Contender]) -> Vec<Contender> {
        let peers = if self.programs.peers.is_some() { peers } else { &[] };
        [&[Library, Http], peers].concat()
    }

    /// Starts a contender in a schema of its own and waits until it is ready.
    pub(super) async fn prepare(&self, contender: Contender, piece: &Piece) -> Result<Round<'_>> {
        let schema = match contender {
            Awa | TunedAwa => self.server.new_schema_named(AWA_SCHEMA).await?,
            _ => self.server.new_schema()?,
        };
        let serve = match contender {
            Http => {
                let program = self.programs.server.as_ref().ok_or("the server is not built")?;
                Some(Serve::start(program, self.server, &schema).await?)
            }
            _ => None,
        };
        let player = self.start(contender, piece, &schema, serve.as_ref()).await?;
        Ok(Round { arena: self, schema, serve, player })
    }

    /// Starts another process of Reveille in the schema of a running round.
    pub(super) async fn beside(&self, round: &Round<'_>, piece: &Piece) -> Result<Player> {
        self.start(Library, piece, &round.schema, None).await
    }

    async fn start(
        &self,
        contender: Contender,
        piece: &Piece,
        schema: &Schema,
        serve: Option<&Serve>,
    ) -> Result<Player> {
        let mut command = match contender {
            Library | Http => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["flow-round", "--piece", &serde_json::to_string(piece)?]);
                serve.iter().for_each(|serve| {
                    command.args(["--server", &serve.address().to_string()]);
                });
                command
            }
            peer => {
                let Piece::Shared(workload) = piece else { return Err("the peers do not have this workload".into()) };
                let mut command = self.peer(peer).ok_or("the peers are not built")?;
                command.args(["--workload", &serde_json::to_string(workload)?]);
                command
            }
        };
        command
            .args(["--schema", schema.name(), "--connections", &CONNECTIONS.to_string()])
            // Not an argument: all users of the machine can read arguments.
            .env("DATABASE_URL", self.server.url());
        Player::start(contender.name(), command, READY).await
    }

    /// The program of a peer; `None` if it is not built.
    fn peer(&self, peer: Contender) -> Option<Command> {
        let programs = self.programs.peers.as_ref()?;
        Some(match peer {
            Library | Http => return None,
            Graphile => Command::new(programs.graphile.as_ref()?),
            Dbos => {
                let (python, program) = programs.dbos.as_ref()?;
                let mut command = Command::new(python);
                command.arg(program);
                command
            }
            Awa | TunedAwa => {
                let mut command = Command::new(programs.awa.as_ref()?);
                command.args(["--setup", if peer == Awa { "defaults" } else { "tuned" }]);
                command
            }
        })
    }

    /// Plays one round.
    pub(super) async fn play(&self, contender: Contender, piece: &Piece) -> Result<Played> {
        self.play_while(contender, piece, async |_| Ok(())).await
    }

    /// Plays one round and runs `meanwhile` at the same time.
    pub(super) async fn play_while(
        &self,
        contender: Contender,
        piece: &Piece,
        meanwhile: impl AsyncFnOnce(&Server) -> Result<()>,
    ) -> Result<Played> {
        let mut round = self.prepare(contender, piece).await?;
        let meter = Meter::start(self.server).await?;
        let processor = || self.server.pid().and_then(family_seconds).unwrap_or(f64::NAN);
        let before = processor();
        round.player.begin().await?;
        meanwhile(self.server).await?;
        let outcome: Outcome = round.player.outcome_within(PLAYED_WITHIN).await?;
        let processor = processor() - before;
        let cost = meter.read().await?;
        if self.statements {
            eprintln!("  {}, {}", serde_json::to_string(piece)?, contender.name());
            let tasks = outcome.figures.get("samples").or(outcome.figures.get("tasks"));
            meter.tell(tasks.copied().unwrap_or(1.0)).await?;
        }
        round.end().await?;
        Ok(Played { outcome, cost, processor })
    }
}

impl Round<'_> {
    /// Kills the processes of the round and removes its schema.
    pub(super) async fn end(self) -> Result<()> {
        self.player.end().await?;
        if let Some(serve) = self.serve {
            serve.end().await?;
        }
        self.arena.server.remove(&self.schema).await
    }
}

/// Figures of an outcome, in this order.
pub(super) fn line(outcome: &Outcome, names: &[&'static str]) -> Line {
    names.iter().map(|name| (*name, outcome.figure(name))).collect()
}
