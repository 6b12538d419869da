//! Compares three designs of waking, with eight waiters of one queue.
//!
//! Competing (Reveille's): one wake-up, one poll for the whole group. Polling after every wake-up: the same, and then
//! ten polls a second for a minute. Broadcast: one wake-up, one poll by every waiter.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use reveille_wake::{AggressiveOn, Options, Strategy};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::latency::{CLAIMS_QUEUE, Claims};
use super::second_process::Sender;
use super::{latencies, start_jobs, until_idle};
use crate::report::{Figures, Report};
use crate::server::Server;
use crate::stats::{Latencies, turns};
use crate::{Result, Run};

/// The name of this workload.
pub(super) const NAME: &str = "designs of waking";
const WAITERS: usize = 8;
/// The pause between two jobs or two bursts. After it all waiters wait again, and the channel is quiet.
const INTERVAL: Duration = Duration::from_millis(30);
/// Waiters without a poll for this long are idle.
const CALM: Duration = Duration::from_millis(20);

/// How jobs arrive.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Shape {
    Here,
    Elsewhere,
    Bursts,
}

const SHAPES: [(Shape, &str); 3] = [
    (Shape::Here, "designs of waking, single jobs of one process"),
    (Shape::Elsewhere, "designs of waking, single jobs of another process"),
    (Shape::Bursts, "designs of waking, eight jobs at once"),
];

#[derive(Default)]
struct Measured {
    claimed: Latencies,
    polls: u64,
    empty_polls: u64,
    statements: Option<f64>,
}

/// Runs the designs alternately.
pub(crate) async fn run(server: &Server, run: &Run, report: &mut Report) -> Result<()> {
    let (rounds, items, after) = if run.quick { (1, 64, 3) } else { (3, 400, 30) };
    let after = Duration::from_secs(after);
    let competing = Options::default();
    let mut designs = vec![("competing (reveille)", &competing)];
    let every_wake = Options { aggressive_on: AggressiveOn::EveryWake, ..Options::default() };
    let broadcast = Options { strategy: Strategy::Broadcast, ..Options::default() };
    if !run.no_peers {
        designs.extend([("poll after every wake", &every_wake), ("broadcast", &broadcast)]);
    }
    let mut measured: HashMap<(&str, Shape), Measured> = HashMap::new();
    let mut idle: HashMap<&str, Option<f64>> = HashMap::new();
    for round in 0..rounds {
        for (design, options) in turns(&designs, round) {
            let schema = server.new_schema()?;
            let jobs = start_jobs(server, 10, &schema, options.clone()).await?;
            let mut sender = Sender::start(server, &schema).await?;
            let mut claims = Claims::start(&jobs, WAITERS);
            for (shape, _) in SHAPES {
                until_idle(&jobs, WAITERS, CALM).await?;
                let (before, mark) = (jobs.claims.counts(), server.mark().await?);
                let claimed = match shape {
                    Shape::Here => in_bursts(&jobs, &mut claims, items, 1).await?,
                    Shape::Bursts => in_bursts(&jobs, &mut claims, items, WAITERS).await?,
                    Shape::Elsewhere => {
                        let mut claimed = Latencies::default();
                        for (id, sent) in sender.send(CLAIMS_QUEUE, items, INTERVAL).await? {
                            claimed.push(claims.of(id).await?.duration_since(sent.committed).unwrap_or_default());
                        }
                        claimed
                    }
                };
                until_idle(&jobs, WAITERS, CALM).await?;
                let counts = jobs.claims.counts();
                let these = measured.entry((design, shape)).or_default();
                these.claimed.extend(claimed);
                these.polls += counts.polls - before.polls;
                these.empty_polls += counts.empty_polls - before.empty_polls;
                let (statements, _) = server.since(&mark).await?;
                these.statements = statements.map(|now| now + these.statements.unwrap_or_default());
            }
            if round + 1 == rounds {
                let mark = server.mark().await?;
                sleep(after).await;
                let (statements, _) = server.since(&mark).await?;
                idle.insert(design, statements.map(|statements| statements / after.as_secs_f64()));
            }
        }
    }
    for (shape, workload) in SHAPES {
        for (design, _) in &designs {
            let these = &measured[&(*design, shape)];
            let per_item = |count: f64| count / these.claimed.len() as f64;
            let figures = latencies(Figures::default(), &these.claimed)
                .number("polls_per_item", per_item(these.polls as f64))
                .number("empty_polls_per_item", per_item(these.empty_polls as f64))
                .perhaps("statements_per_item", these.statements.map(per_item));
            report.result(workload, design, figures);
        }
    }
    for (design, _) in &designs {
        let figures = Figures::default().perhaps("statements_per_s", idle[design]);
        let figures = figures.number("seconds", after.as_secs_f64());
        report.result("designs of waking, after the last job", design, figures);
    }
    Ok(())
}

/// Enqueues `items` jobs, `at_once` together. Returns how long after its commit each was claimed.
async fn in_bursts(jobs: &super::jobs::Jobs, claims: &mut Claims, items: usize, at_once: usize) -> Result<Latencies> {
    let mut claimed = Latencies::default();
    for _ in 0..items / at_once {
        sleep(INTERVAL).await;
        let mut burst: JoinSet<reveille_wake::Result<(i64, SystemTime)>> = JoinSet::new();
        for _ in 0..at_once {
            let jobs = jobs.clone();
            burst.spawn(async move {
                let id = jobs.enqueue(CLAIMS_QUEUE, "job", Duration::ZERO).await?;
                Ok((id, SystemTime::now()))
            });
        }
        for sent in burst.join_all().await {
            let (id, committed) = sent?;
            claimed.push(claims.of(id).await?.duration_since(committed).unwrap_or_default());
        }
    }
    Ok(claimed)
}
