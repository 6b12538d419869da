//! Versions of orchestrations, and upgrades while they run.

use std::time::Duration;

use duroxide::runtime::UnregisteredBackoffConfig;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{EventKind, OrchestrationContext, OrchestrationRegistry};

use super::{Role, Two};
use crate::fixture::eventually;

/// A process that knows the versions up to `newest`. It leaves other versions to other processes, and polls again soon.
fn role(newest: u32) -> Role {
    let mut orchestrations = OrchestrationRegistry::builder();
    for version in 1..=newest {
        let works = move |ctx: OrchestrationContext, input: String| async move {
            let heard = ctx.schedule_wait("go").await;
            if heard == "upgrade" {
                return ctx
                    .continue_as_new_versioned(format!("{}.0.0", version + 1), format!("{input}{version}"))
                    .await;
            }
            let child = ctx.schedule_sub_orchestration_versioned("child", Some("1.0.0".into()), "").await?;
            Ok(format!("{input}{version} {child}"))
        };
        let child = move |_: OrchestrationContext, _: String| async move { Ok(format!("child {version}")) };
        orchestrations = orchestrations
            .register_versioned("works", format!("{version}.0.0"), works)
            .register_versioned("child", format!("{version}.0.0"), child);
    }
    let mut role = Role::new(ActivityRegistry::builder().build(), orchestrations.build());
    role.options.max_attempts = 1_000;
    role.options.unregistered_backoff =
        UnregisteredBackoffConfig { base_delay: Duration::from_millis(50), max_delay: Duration::from_millis(100) };
    role
}

async fn waits(two: &Two, instance: &str) {
    two.until(instance, "it waits", |kind| matches!(kind, EventKind::ExternalSubscribed { .. })).await;
}

/// An orchestration begins with the newest version there is, or with the one it was asked for, and keeps it; a child
/// has the version its parent chose.
#[tokio::test(flavor = "multi_thread")]
async fn an_orchestration_keeps_the_version_it_began_with() {
    let two = Two::with(role(2), role(2)).await;
    two.here.begin("newest", "works", "").await;
    two.there.client.start_orchestration_versioned("first", "works", "1.0.0", "").await.expect("started");
    for (instance, version) in [("newest", 2), ("first", 1)] {
        waits(&two, instance).await;
        two.there.client.raise_event(instance, "go", "").await.expect("raised");
        assert_eq!(two.output(instance).await, format!("{version} child 1"));
        let info = two.here.client.get_instance_info(instance).await.expect("it is there");
        assert_eq!(info.orchestration_version, format!("{version}.0.0"));
    }
    assert_eq!(two.finish().await, 4);
}

/// An orchestration that continues as a new version passes by a process that does not know it, until one comes that
/// does.
/// One process knows the first version only; it is upgraded while orchestrations run, of which half continue as the
/// second.
#[tokio::test(flavor = "multi_thread")]
async fn orchestrations_are_upgraded_while_processes_are() {
    const ORCHESTRATIONS: usize = 6;
    let mut two = Two::with(role(1), role(1)).await;
    for number in 0..ORCHESTRATIONS {
        let from = if number % 2 == 0 { &two.here } else { &two.there };
        from.begin(&format!("works-{number}"), "works", "").await;
    }
    for number in 0..ORCHESTRATIONS {
        let instance = format!("works-{number}");
        waits(&two, &instance).await;
        let what = if number < ORCHESTRATIONS / 2 { "upgrade" } else { "" };
        two.here.client.raise_event(&instance, "go", what).await.expect("raised");
    }
    for number in ORCHESTRATIONS / 2..ORCHESTRATIONS {
        assert_eq!(two.output(&format!("works-{number}")).await, "1 child 1");
    }
    eventually("they have continued as an unknown version", async || {
        two.count("select count(*) from {schema}.executions where status = 'ContinuedAsNew'").await
            == (ORCHESTRATIONS / 2) as i64
    })
    .await;
    two.there.replace(role(2)).await;
    for number in 0..ORCHESTRATIONS / 2 {
        let instance = format!("works-{number}");
        eventually("the second execution waits", async || {
            let history = two.here.client.read_execution_history(&instance, 2).await.unwrap_or_default();
            history.iter().any(|event| matches!(event.kind, EventKind::ExternalSubscribed { .. }))
        })
        .await;
        two.here.client.raise_event(&instance, "go", "").await.expect("raised");
        assert_eq!(two.output(&instance).await, "12 child 1");
    }
    assert_eq!(two.finish().await, 2 * ORCHESTRATIONS + ORCHESTRATIONS / 2);
}
