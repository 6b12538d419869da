//! Attacks on a running server, each bounded, on loopback only.
//!
//! `cargo run --release -p reveille-bench -- attack` starts a PostgreSQL and, for every attack, a `reveille serve` of
//! its own, attacks it, and meanwhile requests `/health/live` on a new connection every [`PROBE_EVERY`]. It prints the
//! peak of the server's resident memory, the slowest health response, and the responses to the attacker. An attack has
//! succeeded if the server ended, if its memory exceeded the documented limit, or if a health request took longer than
//! [`HEALTH_WITHIN`].

mod bodies;
mod connections;
mod graphs;
mod messages;
mod pages;
mod raw;
mod victim;

use std::time::Duration;

use tokio::time::timeout;

use crate::queue::build_server;
use crate::report::{Figures, Report};
use crate::server::Server;
use crate::{Result, Run};
use victim::Victim;

/// How often health is requested during an attack.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// If a health response takes longer than this, the attack has succeeded.
const HEALTH_WITHIN: Duration = Duration::from_secs(5);
/// The limit of resident memory that docs/security.md states, in megabytes.
const MEMORY_BOUND_MB: f64 = 1_024.0;
/// The longest an attack may take.
const ATTACK_WITHIN: Duration = Duration::from_secs(120);

/// One attack: its name and its function, which returns a summary of the responses.
type Attack = (&'static str, for<'a> fn(&'a Victim) -> Boxed<'a>);
type Boxed<'a> = std::pin::Pin<Box<dyn Future<Output = Result<String>> + Send + 'a>>;

/// All attacks.
const ATTACKS: &[Attack] = &[
    ("schema that doubles per level", |victim| Box::pin(graphs::doubling_schema(victim))),
    ("schema with a slow pattern", |victim| Box::pin(graphs::slow_pattern(victim))),
    ("cycle of 5 000 steps", |victim| Box::pin(graphs::long_cycle(victim))),
    ("schedule that is never due", |victim| Box::pin(graphs::impossible_schedule(victim))),
    ("claim of 100 contexts of 1 MB", |victim| Box::pin(graphs::large_claim(victim))),
    ("pushes of many small items", |victim| Box::pin(bodies::small_items(victim))),
    ("1 000 clients push 1 MB each", |victim| Box::pin(bodies::crowd(victim))),
    ("bodies that are announced only", |victim| Box::pin(bodies::announced(victim))),
    ("waiters with compressed bodies", |victim| Box::pin(bodies::compressed_waiters(victim))),
    ("body that inflates to 1 GB", |victim| Box::pin(bodies::inflating(victim))),
    ("JSON nested 100 000 deep", |victim| Box::pin(bodies::deep(victim))),
    ("3 000 silent connections", |victim| Box::pin(connections::silent(victim))),
    ("headers byte by byte", |victim| Box::pin(connections::slow_headers(victim))),
    ("requests of a foreign web page", |victim| Box::pin(pages::foreign(victim))),
    ("pop of 400 MB", |victim| Box::pin(messages::large_pop(victim))),
    ("consumer that never acks", |victim| Box::pin(messages::poison(victim))),
];

/// Runs every selected attack.
///
/// # Errors
/// If an attack succeeded. All attacks are run before that is reported.
pub(crate) async fn run(server: &Server, run: &Run, report: &mut Report) -> Result<()> {
    let program = build_server()?;
    let mut successes = Vec::new();
    for (name, attack) in ATTACKS {
        if !run.begins(name) {
            continue;
        }
        let victim = Victim::start(&program, server).await?;
        let probe = victim.probe();
        let answered = match timeout(ATTACK_WITHIN, attack(&victim)).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => format!("the attack failed: {error}"),
            Err(_) => format!("not over within {} s", ATTACK_WITHIN.as_secs()),
        };
        let health = probe.end().await;
        let (alive, peak, after) = (victim.is_alive(), victim.peak_mb(), victim.resident_mb());
        let figures = Figures::default()
            .perhaps("peak MB", peak)
            .perhaps("after MB", after)
            .number("worst health ms", health.as_secs_f64() * 1e3)
            .text("server", if alive { "runs" } else { "ENDED" })
            .text("answered", &answered);
        report.result(name, "reveille", figures);
        if !alive || peak.is_none_or(|peak| peak > MEMORY_BOUND_MB) || health > HEALTH_WITHIN {
            successes.push(*name);
        }
        victim.end().await?;
    }
    match successes.is_empty() {
        true => Ok(()),
        false => Err(format!("these attacks succeeded: {}", successes.join(", ")).into()),
    }
}
