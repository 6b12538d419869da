//! The unchanged Python client, in the release that defines the contract and in the newest: every feature that it
//! documents works against a real server.
//!
//! The programs are in `clients/`, one for each area. Both releases run each of them, on queues of their own; if a
//! release lacks a feature, or interprets a response differently, the program says so.

use std::path::Path;

use super::fixture::{Client, Server, messages};
use crate::process::Reveille;
use crate::python::python;
use crate::serve::stop;

/// The environments of `scripts/python.sh`, one for each release.
const RELEASES: [&str; 2] = ["queen-0.15", "queen-2.6"];
/// The last line of a program.
const DONE: &str = "all steps are done";

/// Starts a program of `clients/` with a release, on these servers.
fn start(release: &str, program: &str, servers: &[Client]) -> Reveille {
    let mut command = python(release, "python");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/queue/clients").join(program));
    // Users of 2.6 may switch this off for a whole process; the tests use the default.
    command.env_remove("QUEEN_SDK_POP_AUTOPILOT");
    command.args(servers.iter().map(|server| format!("http://{}", server.address)));
    Reveille::start(command)
}

/// Waits until it has done all its steps.
async fn done(release: &str, program: Reveille) {
    let ended = program.ended().await;
    let good = ended.status.success() && ended.output.contains(DONE);
    assert!(good, "the program failed with {release}, {}:\n{}", ended.status, ended.output);
}

/// Runs a program with both releases at the same time; the server must log no error.
async fn both(server: Server, program: &str) {
    let run = async |release| done(release, start(release, program, &[server.client])).await;
    tokio::join!(run(RELEASES[0]), run(RELEASES[1]));
    quiet(server).await;
}

/// Stops a server, which must not have logged an error.
pub(super) async fn quiet(server: Server) {
    crate::serve::quiet(server.reveille).await;
}

/// Creating, configuring and deleting queues, pushes of every kind, duplicates, partitions, and waiting pops.
#[tokio::test]
async fn the_client_pushes_and_pops() {
    both(Server::start().await, "messages.py").await;
}

/// Consumers: single, in batches, each, in groups, concurrently, of namespaces; and every way in which they stop.
#[tokio::test]
async fn the_client_consumes() {
    both(Server::start().await, "consuming.py").await;
}

/// Redelivery, the retry limit, dead letters, and transactions that are committed or rolled back.
#[tokio::test]
async fn the_client_retries_failed_messages() {
    both(Server::start().await, "failing.py").await;
}

/// Leases that expire or are renewed, explicitly and by the consumer, delayed messages, quiet windows, delayed retries.
#[tokio::test]
async fn the_client_uses_leases_and_delays() {
    both(Server::start().await, "timing.py").await;
}

/// Subscriptions of every mode, seeking, and deleting groups.
#[tokio::test]
async fn the_client_moves_consumer_groups() {
    both(Server::start().await, "groups.py").await;
}

/// Buffered pushes must arrive, whatever makes the client send them: a number, a time, a flush, its end, or the end of
/// its process. For the last the program ends itself by a signal, and its messages are read afterwards.
#[tokio::test]
async fn the_client_buffers() {
    let server = Server::start().await;
    let client = server.client;
    let run = async |release| done(release, start(release, "buffering.py", &[client])).await;
    tokio::join!(run(RELEASES[0]), run(RELEASES[1]));
    for queue in ["ended-0_15_0", "ended-2_6_0"] {
        let popped = client.pop(&format!("queue/{queue}?batch=10")).await;
        let numbers: Vec<i64> = messages(&popped).iter().filter_map(|it| it["data"].as_i64()).collect();
        assert_eq!(numbers, [1, 2, 3], "{queue}");
    }
    quiet(server).await;
}

/// Every administrative call of the client, and traces.
/// One release after the other, because maintenance mode applies to the whole server.
#[tokio::test]
async fn the_client_administers() {
    let server = Server::start().await;
    for release in RELEASES {
        done(release, start(release, "administration.py", &[server.client])).await;
    }
    quiet(server).await;
}

/// Consumers that know two servers must continue if one of them stops, and get each message once.
/// Consumers of both releases wait at both servers; when all wait, one server is stopped as by a supervisor.
#[tokio::test]
async fn the_client_survives_a_server() {
    let server = Server::start().await;
    let (leaving, first) = server.another().await;
    let programs = RELEASES.map(|release| start(release, "failover.py", &[first, server.client]));
    for program in &programs {
        program.line("the first server may go").await;
    }
    stop(leaving).await;
    for (release, program) in RELEASES.into_iter().zip(programs) {
        done(release, program).await;
    }
    quiet(server).await;
}
