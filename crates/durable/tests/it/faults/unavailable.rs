//! An unavailable server, and connections that end at random: for orchestrations it is only a pause.

use std::ops::Range;
use std::time::Duration;

use reveille_durable::PostgresProvider;
use reveille_pg::Schema;
use reveille_pg::testing::{PrivateCluster, TestDb};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::load::{ACTIVITIES, Load};
use super::{connected, options};

/// Orchestrations that run while the server goes away.
const ORCHESTRATIONS: usize = 200;
/// How long the server is away when it does not come back at once.
const AWAY: Duration = Duration::from_secs(3);
/// How long connections are terminated: enough for hundreds, and short of what a run of all tests can afford.
const TERMINATING: Duration = Duration::from_secs(10);
/// The pauses between terminations, in milliseconds: long enough for a new connection to be of use before it ends as
/// well.
const PAUSES: Range<u64> = 50..250;
/// Orchestrations that run at a time while connections are terminated.
const RUNNING_MAX: usize = 20;

/// A server of its own, and a load on it.
async fn private() -> Option<(PrivateCluster, Load)> {
    let cluster = PrivateCluster::start().await?;
    let schema = Schema::new("faults").expect("a name");
    let provider = PostgresProvider::connect(cluster.url(), options(&schema)).await;
    // The first provider migrates the schema: this one.
    let provider = provider.expect("a provider");
    connected(&provider).await;
    let load = Load::start(&provider).await;
    Some((cluster, load))
}

/// Starts orchestrations, disturbs the server when a third of their activities has been executed, and checks every one.
async fn disturbed(load: Load, disturb: impl AsyncFnOnce()) {
    let total = ORCHESTRATIONS * ACTIVITIES;
    for number in 0..ORCHESTRATIONS {
        load.begin(number).await;
    }
    load.until_executed(total / 3).await;
    disturb().await;
    assert!(load.executed() < total, "everything was over before the server was");
    for number in 0..ORCHESTRATIONS {
        load.finish(number).await;
    }
    connected(&load.provider).await;
    load.stop().await;
}

/// A server that crashes and comes back fails no orchestration: all complete, with the right results and whole
/// histories.
/// Restarted in immediate mode in the middle of the work of two hundred.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_server_fails_no_orchestration() {
    let Some((cluster, load)) = private().await else { return };
    disturbed(load, async || cluster.restart_immediate().await.expect("restart")).await;
}

/// A server that is away for seconds, as at a failover or an upgrade, fails no orchestration.
/// Stopped in the middle of the work of two hundred, and started again three seconds later.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_for_seconds_fails_no_orchestration() {
    let Some((cluster, load)) = private().await else { return };
    disturbed(load, async || {
        cluster.stop().await.expect("stop");
        sleep(AWAY).await;
        cluster.start_again().await.expect("start");
    })
    .await;
}

/// Connections that end at any time, the listener's among them, fail no orchestration.
/// A superuser terminates a random backend of the provider again and again, for as long as orchestrations are started
/// and ended, some at a time.
#[tokio::test(flavor = "multi_thread")]
async fn connections_terminated_at_random_fail_no_orchestration() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let Some(mut superuser) = db.superuser().await else { return };
    let provider = PostgresProvider::connect(role.url(), options(db.schema())).await.expect("a provider");
    let load = Load::start(&provider).await;
    let until = Instant::now() + TERMINATING;

    let terminating = async {
        let mut terminated = 0;
        while Instant::now() < until {
            let ended: Option<bool> = sqlx::query_scalar(
                "select pg_terminate_backend(pid) from (
                     select pid from pg_stat_activity where usename = $1 order by random() limit 1) one",
            )
            .bind(role.name())
            .fetch_optional(&mut superuser)
            .await
            .expect("terminate");
            terminated += usize::from(ended == Some(true));
            sleep(Duration::from_millis(fastrand::u64(PAUSES))).await;
        }
        terminated
    };
    let working = async {
        let mut running = JoinSet::new();
        let mut number = 0;
        while Instant::now() < until || !running.is_empty() {
            while Instant::now() < until && running.len() < RUNNING_MAX {
                let load = load.clone();
                running.spawn(async move {
                    load.begin(number).await;
                    load.finish(number).await;
                });
                number += 1;
            }
            running.join_next().await.expect("one is running").expect("it completes");
        }
        number
    };
    let (terminated, completed) = tokio::join!(terminating, working);
    // A busy machine does fewer of both; that nothing happened must not pass for that nothing failed.
    assert!(terminated >= 5, "only {terminated} terminated while {completed} completed");
    connected(&provider).await;
    load.stop().await;
}
