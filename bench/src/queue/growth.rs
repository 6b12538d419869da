//! Growth of the costs of a message with the backlog, the partitions and the waiting consumers, as a library.

use traffic::{Backlog, Outcome, Parked, Queue, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Contender, Entry, LIBRARY};
use crate::comparison::{Comparison, Line};
use crate::growth::{conclude, title};
use crate::report::Report;
use crate::{Result, Run};

const BACKLOG: &str = "growth, queue backlog";
const PARTITIONS: &str = "growth, queue partitions";
const WAITERS: &str = "growth, queue waiters";
/// Messages of one call.
const BATCH: usize = 10;
/// Partitions while the backlog grows.
const OF_BACKLOG: usize = 100;
/// The backlog while the number of partitions grows: as many messages as the most partitions.
const OF_PARTITIONS: usize = 10_000;
/// The average pause between two messages to waiting consumers.
const PAUSE_MS: u64 = 10;

/// Measures all sizes.
pub(super) async fn run(arena: &Arena<'_>, run: &Run, report: &mut Report) -> Result<()> {
    let messages = arena.choose(5_000, 20_000);
    let with_backlog = |partitions, backlog| {
        Workload::Backlog(Backlog { queue: Queue::new(new_name(), partitions, BATCH), backlog, messages })
    };
    let costs = ["push_us", "pop_us", "statements_each", "database_cpu_us"];
    if run.begins(BACKLOG) {
        let sizes = arena.choose(&[1_000, 10_000][..], &[1_000, 10_000, 100_000, 1_000_000]);
        let of = |size| with_backlog(OF_BACKLOG, size);
        conclude(&all(arena, BACKLOG, sizes, of).await, BACKLOG, LIBRARY, sizes, &costs, report);
    }
    if run.begins(PARTITIONS) {
        let sizes = arena.choose(&[1, 10, 100, 1_000][..], &[1, 10, 100, 1_000, 10_000]);
        let of = |size| with_backlog(size, OF_PARTITIONS);
        conclude(&all(arena, PARTITIONS, sizes, of).await, PARTITIONS, LIBRARY, sizes, &costs, report);
    }
    if run.begins(WAITERS) {
        let sizes = arena.choose(&[1, 10, 100, 1_000][..], &[1, 10, 100, 1_000, 10_000]);
        let messages = arena.choose(200, 1_000);
        let of =
            |size| Workload::Parked(Parked { queue: Queue::probed(new_name(), size), messages, pause_ms: PAUSE_MS });
        let costs = ["p50_ms", "statements_each", "client_cpu_us"];
        conclude(&all(arena, WAITERS, sizes, of).await, WAITERS, LIBRARY, sizes, &costs, report);
    }
    Ok(())
}

async fn all(
    arena: &Arena<'_>,
    name: &str,
    sizes: &[usize],
    workload: impl Fn(usize) -> Workload,
) -> Comparison<Contender, Workload> {
    let entry = |&size: &usize| Entry { title: title(name, size), contender: LIBRARY, workload: workload(size) };
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    Comparison::run(sizes.iter().map(entry).collect(), arena.rounds(1, 3), play).await
}

fn figures(Played { outcome, cost, processor }: Played) -> Result<Line> {
    let us = |seconds: f64, messages: f64| 1_000_000.0 * seconds / messages;
    let (mut line, messages) = match outcome {
        Outcome::Backlog(done) => {
            let (sent, received) = (done.sent as f64, done.received as f64);
            let push = ("push_us", us(done.sending_seconds, sent));
            (vec![push, ("pop_us", us(done.receiving_seconds, received))], sent)
        }
        Outcome::Parked(done) => {
            let known = |figure: Option<f64>| figure.unwrap_or(f64::NAN);
            let latencies = &done.latencies;
            (vec![("p50_ms", known(latencies.p50_ms)), ("p99_ms", known(latencies.p99_ms))], latencies.count as f64)
        }
        _ => return Err("not the outcome of growth".into()),
    };
    let each = cost.per(messages);
    line.extend([
        ("statements_each", each.statements),
        ("wal_bytes_each", each.wal_bytes),
        ("client_cpu_us", us(processor.client.unwrap_or(f64::NAN), messages)),
        ("database_cpu_us", us(processor.database.unwrap_or(f64::NAN), messages)),
    ]);
    Ok(line)
}
