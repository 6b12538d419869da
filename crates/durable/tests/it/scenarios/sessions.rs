//! Activities that belong together, and are executed where the first of them was.

use std::collections::HashSet;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use super::{Role, Two};
use crate::fixture::eventually;

/// Says which worker executed it, in which session.
async fn tells(ctx: ActivityContext, _: String) -> Result<String, String> {
    let process = if ctx.worker_id().ends_with("there") { "there" } else { "here" };
    Ok(format!("{}@{process}", ctx.session_id().unwrap_or("-")))
}

/// Four activities of a session, one after the other and two at once.
async fn converse(ctx: OrchestrationContext, session: String) -> Result<String, String> {
    let mut owners = Vec::new();
    for _ in 0..2 {
        owners.push(ctx.schedule_activity_on_session("tells", "", &session).await?);
    }
    let both = (0..2).map(|_| ctx.schedule_activity_on_session("tells", "", &session)).collect();
    for one in ctx.join(both).await {
        owners.push(one?);
    }
    Ok(owners.join(" "))
}

fn role(process: &str) -> Role {
    let once = |ctx: OrchestrationContext, session: String| async move {
        let first = ctx.schedule_activity_on_session("tells", "", &session).await?;
        let go = ctx.schedule_wait("go").await;
        let second = ctx.schedule_activity_on_session("tells", "", &session).await?;
        Ok(format!("{first} {go} {second}"))
    };
    let orchestrations = OrchestrationRegistry::builder().register("converse", converse).register("once", once).build();
    Role::new(ActivityRegistry::builder().register("tells", tells).build(), orchestrations).called(process)
}

/// All activities of a session are executed by one process, also those of other orchestrations.
/// Eight sessions, each used by two orchestrations at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_stays_in_one_process() {
    const SESSIONS: usize = 8;
    let two = Two::with(role("here"), role("there")).await;
    for number in 0..2 * SESSIONS {
        let from = if number % 2 == 0 { &two.here } else { &two.there };
        from.begin(&format!("talk-{number}"), "converse", &format!("s{}", number % SESSIONS)).await;
    }
    for session in 0..SESSIONS {
        let mut processes = HashSet::new();
        for number in [session, session + SESSIONS] {
            let output = two.output(&format!("talk-{number}")).await;
            processes.extend(output.split(' ').map(str::to_owned));
        }
        assert_eq!(processes.len(), 1, "session {session}: {processes:?}");
        assert!(processes.iter().all(|process| process.starts_with(&format!("s{session}@"))), "{processes:?}");
    }
    assert_eq!(two.finish().await, 2 * SESSIONS);
}

/// A session whose process has gone is taken over by another when its lease has ended.
/// The process that has it is stopped without a word, between two activities of the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_process_has_gone_is_taken_over() {
    let lease = Duration::from_secs(2);
    let brief = |process| {
        let mut role = role(process);
        role.options.session_lock_timeout = lease;
        role.options.session_lock_renewal_buffer = Duration::from_secs(1);
        role
    };
    let mut two = Two::with(brief("here"), brief("there")).await;
    two.here.begin("talk", "once", "s").await;
    let mut owner = String::new();
    eventually("a worker owns the session", async || {
        let owners = two.db.schema().sql("select worker_id from {schema}.sessions where session_id = 's'");
        let found: Option<String> =
            sqlx::query_scalar(&owners).fetch_optional(two.db.database().pool()).await.expect("the owner");
        owner = found.unwrap_or_default();
        !owner.is_empty()
    })
    .await;
    two.until("talk", "it waits", |kind| matches!(kind, duroxide::EventKind::ExternalSubscribed { .. })).await;
    let (gone, other) = if owner == "here" { (&mut two.here, "there") } else { (&mut two.there, "here") };
    gone.stop().await;
    two.here.client.raise_event("talk", "go", "then").await.expect("raised");
    assert_eq!(two.output("talk").await, format!("s@{owner} then s@{other}"));
    assert_eq!(two.finish().await, 1);
}
