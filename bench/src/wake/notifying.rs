//! The cost of notifications for writers.
//!
//! Each of several writers has one write in progress. There is one commit per write, except with grouped batches. All
//! systems but one use the same statement. They differ in whether and how they notify, and in the sender: either each
//! writer has a connection, or the engine sends. A second process is listening all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reveille_pg::migrate::{Component, Function, Migration, Migrator};
use reveille_pg::{Schema, Sql};
use reveille_wake::{
    BatchResult, BatchedWrite, Channel, Options, Payload, Wake, WakeUp, WriteBatch, Writer, WriterOptions,
};
use sqlx::PgConnection;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::second_process::Sender;
use super::start_jobs;
use crate::report::{Figures, Goal, Report};
use crate::server::Server;
use crate::stats::{Rounds, turns};
use crate::{Result, Run};

/// The name of this workload.
pub(super) const NAME: &str = "cost of notifying";
/// The number of writers for which there is a target.
const MANY: usize = 32;
/// The bytes of one write.
const BODY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// The notified topic: it has no waiters, so that only the notification is measured.
const TOPIC: &str = "written";

#[derive(Clone, Copy, PartialEq, Eq)]
enum System {
    /// Sent by the writer: a plain INSERT, which shows the cost of the common statement.
    Insert,
    /// Sent by the writer, without notification.
    Silent,
    /// Sent by the writer, with NOTIFY in every transaction.
    Notify,
    /// Sent by the engine, one batch per write, without notification: the cost of batches without grouping.
    SilentWriter,
    /// Sent by the engine, one batch per write, with adaptive notification.
    Adaptive,
    /// Sent by the engine as it is normally used: grouped batches, adaptive notification.
    Grouped,
}

impl System {
    const ALL: [System; 6] =
        [System::Silent, System::Adaptive, System::SilentWriter, System::Grouped, System::Notify, System::Insert];

    fn name(self) -> &'static str {
        match self {
            System::Insert => "plain INSERT",
            System::Silent => "no notification",
            System::Notify => "NOTIFY in every transaction",
            System::SilentWriter => "no notification, a batch per write",
            System::Adaptive => "adaptive notification, a batch per write",
            System::Grouped => "adaptive notification, grouped batches",
        }
    }
}

#[derive(Default)]
struct Measured {
    rate: Rounds,
    statements: Rounds,
    wal: Rounds,
}

/// Runs the systems alternately, for each number of writers.
pub(crate) async fn run(server: &Server, run: &Run, report: &mut Report) -> Result<()> {
    let (points, rounds, time): (&[usize], _, _) =
        if run.quick { (&[1, MANY], 5, 400) } else { (&[1, 4, 16, MANY], 5, 2_000) };
    let time = Duration::from_millis(time);
    let systems: Vec<System> = System::ALL.into_iter().filter(|s| !run.no_peers || *s != System::Notify).collect();
    let schema = server.new_schema()?;
    let jobs = start_jobs(server, MANY as u32 + 4, &schema, Options::default()).await?;
    Migrator::new(&schema, vec![Wake::component(), component()]).run(&server.database(1).await?).await?;
    let _listener = Sender::start(server, &schema).await?;
    let channel = jobs.wake.channel("jobs", Payload::Keys);
    for writers in points.iter().copied() {
        let crew = Crew::new(server, &schema, &jobs.wake, &channel, writers).await?;
        let mut measured: Vec<Measured> = systems.iter().map(|_| Measured::default()).collect();
        let slots: Vec<usize> = (0..systems.len()).collect();
        for round in 0..rounds {
            for index in turns(&slots, round) {
                let mark = server.mark().await?;
                let (writes, took) = crew.write(systems[index], time).await?;
                let (statements, wal) = server.since(&mark).await?;
                measured[index].rate.push(writes / took.as_secs_f64());
                measured[index].statements.push(statements.map_or(f64::NAN, |count| count / writes));
                measured[index].wal.push(wal / writes);
            }
        }
        let rate_of = |system| systems.iter().position(|s| *s == system).map(|index| measured[index].rate.clone());
        let silent = rate_of(System::Silent).unwrap_or_default();
        for (system, these) in systems.iter().zip(&measured) {
            let share = these.rate.over(&silent);
            let figures = Figures::default()
                .count("writers", writers)
                .number("writes_per_s", these.rate.median())
                .number("spread", these.rate.spread())
                .number("share_of_no_notification", share.median())
                .number("share_spread", share.spread());
            let figures = match (system, rate_of(System::SilentWriter)) {
                (System::Adaptive, Some(mute)) => {
                    figures.number("share_of_same_batches", these.rate.over(&mute).median())
                }
                _ => figures,
            };
            let figures = figures
                .number("statements_per_write", these.statements.median())
                .number("wal_bytes_per_write", these.wal.median());
            report.result(NAME, system.name(), figures);
            if writers == MANY && *system == System::Adaptive {
                let target = "adaptive notification at 32 writers, % of the rate without notification";
                report.target(target, Goal::AtLeast(80.0), share.median() * 100.0);
            }
        }
    }
    Ok(())
}

/// A number of writers, with a connection and the writers of the engine for each system.
struct Crew {
    connections: Vec<Arc<tokio::sync::Mutex<PgConnection>>>,
    insert: Sql,
    write: Sql,
    channel: Channel,
    silent: Writer<Write>,
    adaptive: Writer<Write>,
    grouped: Writer<Write>,
}

impl Crew {
    async fn new(server: &Server, schema: &Schema, wake: &Wake, channel: &Channel, writers: usize) -> Result<Crew> {
        let mut connections = Vec::new();
        for _ in 0..writers {
            connections.push(Arc::new(server.connection().await?.into()));
        }
        let write = schema.sql("select * from {schema}.write($1, $2, $3, $4, $5)");
        let writer = |name, wake_ups: Option<&Channel>, options| {
            wake.writer(name, Write { sql: write.clone(), wake_ups: wake_ups.cloned() }, options)
        };
        let single = || WriterOptions { max_writes: 1, concurrency: writers, ..WriterOptions::default() };
        Ok(Crew {
            connections,
            insert: schema.sql("insert into {schema}.written (body) values ($1)"),
            silent: writer("silent", None, single()),
            adaptive: writer("adaptive", Some(channel), single()),
            grouped: writer("grouped", Some(channel), WriterOptions::default()),
            channel: channel.clone(),
            write,
        })
    }

    /// Runs all writers for `time`. Returns the number of writes, and the time until the last one was committed.
    async fn write(&self, system: System, time: Duration) -> Result<(f64, Duration)> {
        let done = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let until = began + time;
        let mut writers: JoinSet<Result<()>> = JoinSet::new();
        for connection in &self.connections {
            let done = done.clone();
            match system {
                System::Insert | System::Silent | System::Notify => {
                    let (connection, insert, write) = (connection.clone(), self.insert.clone(), self.write.clone());
                    let (channels, payloads) = match system {
                        System::Notify => Wake::notifications(&[self.channel.wake_up_keys([TOPIC])]),
                        _ => Default::default(),
                    };
                    writers.spawn(async move {
                        let mut connection = connection.lock().await;
                        while Instant::now() < until {
                            let query = match system {
                                System::Insert => sqlx::query(&insert).bind(BODY),
                                _ => sqlx::query(&write)
                                    .bind(Option::<uuid::Uuid>::None)
                                    .bind(&channels)
                                    .bind(&payloads)
                                    .bind(false)
                                    .bind(vec![BODY]),
                            };
                            query.fetch_optional(&mut *connection).await?;
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(())
                    });
                }
                System::SilentWriter | System::Adaptive | System::Grouped => {
                    let writer = match system {
                        System::SilentWriter => self.silent.clone(),
                        System::Adaptive => self.adaptive.clone(),
                        _ => self.grouped.clone(),
                    };
                    writers.spawn(async move {
                        while Instant::now() < until {
                            writer.submit(()).await?;
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(())
                    });
                }
            }
        }
        while let Some(ended) = writers.join_next().await {
            ended??;
        }
        Ok((done.load(Ordering::Relaxed) as f64, began.elapsed()))
    }
}

/// The write as a batch. It records no outcome, like the writes that it is compared with.
struct Write {
    sql: Sql,
    wake_ups: Option<Channel>,
}

impl BatchedWrite for Write {
    type Write = ();
    type Key = ();
    type Outcome = ();
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, (): &()) {}

    fn wake_ups(&self, (): &(), _: Option<&()>) -> Vec<WakeUp> {
        self.wake_ups.iter().map(|channel| channel.wake_up_keys([TOPIC])).collect()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, ()>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let bodies = vec![BODY; batch.writes.len()];
        batch.result(self, &batch.query(&self.sql).bind(bodies).fetch_one(conn).await?)
    }

    fn decode(&self, (): &(), _: &str) -> Option<()> {
        Some(())
    }
}

fn component() -> Component {
    Component {
        name: "bench",
        migrations: &[Migration { number: 1, name: "written", sql: include_str!("sql/0001_written.sql") }],
        functions: &[Function { name: "write", sql: include_str!("sql/write.sql") }],
        vars: Vec::new(),
    }
}
