//! Throughput during a transaction that is idle for five minutes.
//!
//! While it is open, rows deleted since it began cannot be vacuumed, and claims may have to skip dead tuples. One long
//! fan-out per contender; its rate is observed from outside, by the instances that it creates, because it must be known
//! during the run.

use std::time::{Duration, Instant};

use reveille_pg::Schema;
use sqlx::Connection as _;
use tokio::time::sleep;
use workloads::{Dispatchers, FanOut, Workload};

use super::arena::Arena;
use super::contender::{Contender, REVEILLE};
use super::player::start;
use crate::Result;
use crate::comparison::Named as _;
use crate::report::{Figures, Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "old transaction";
/// The start of the fan-out, not measured.
const RUN_UP: Duration = Duration::from_secs(10);
/// How long a rate is measured: long against the second by which the statistics of tables are late.
const WINDOW: Duration = Duration::from_secs(30);
/// How long the transaction is open.
const OPEN: Duration = Duration::from_secs(300);
/// More orchestrations than any contender completes before the end.
const ENDLESS: usize = 10_000_000;

/// Measures all contenders, one after the other.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    for contender in arena.with_peers(&[REVEILLE]) {
        let loss = match play(arena, contender, report).await {
            Ok(loss) => loss,
            Err(error) => {
                eprintln!("  {}: {}", contender.name(), reveille_pg::causes(&*error));
                f64::NAN
            }
        };
        if contender == REVEILLE {
            report.target("old transaction: loss %", Goal::AtMost(20.0), loss);
        }
    }
    Ok(())
}

async fn play(arena: &Arena<'_>, contender: Contender, report: &mut Report) -> Result<f64> {
    let schema = arena.server.new_schema()?;
    let workload = Workload::FanOut(FanOut::new(ENDLESS, Dispatchers::same(4)));
    let mut player = start(arena, contender, &schema, &workload).await?;
    player.begin().await?;
    sleep(RUN_UP).await;
    let before = rate(arena, &schema).await?;

    let mut connection = arena.server.connection().await?;
    let mut idle = connection.begin().await?;
    // Both a number of its own and a snapshot, as a forgotten transaction of an application has.
    sqlx::raw_sql("set transaction isolation level repeatable read; select pg_current_xact_id()")
        .execute(&mut *idle)
        .await?;
    let first = rate(arena, &schema).await?;
    sleep(OPEN.saturating_sub(2 * WINDOW)).await;
    let last = rate(arena, &schema).await?;
    idle.rollback().await?;
    let after = rate(arena, &schema).await?;

    player.end().await?;
    arena.server.remove(&schema).await?;
    let loss = 100.0 * (1.0 - last / before);
    let figures = Figures::default()
        .number("loss_percent", loss)
        .number("before_per_s", before)
        .number("first_per_s", first)
        .number("last_per_s", last)
        .number("after_per_s", after)
        .number("open_s", OPEN.as_secs_f64());
    report.result(NAME, contender.name(), figures);
    Ok(loss)
}

/// Orchestrations per second over a [`WINDOW`].
async fn rate(arena: &Arena<'_>, schema: &Schema) -> Result<f64> {
    let (began, then) = (Instant::now(), created(arena, schema).await?);
    sleep(WINDOW).await;
    let now = created(arena, schema).await?;
    Ok((now - then) / began.elapsed().as_secs_f64())
}

/// Instances created so far. All contenders keep them in a table of this name.
async fn created(arena: &Arena<'_>, schema: &Schema) -> Result<f64> {
    let created = "select n_tup_ins::float8 from pg_stat_all_tables where schemaname = $1 and relname = 'instances'";
    let created = sqlx::query_scalar(created).bind(schema.name());
    Ok(created.fetch_one(&mut *arena.server.observer().await).await?)
}
