//! What an orchestration shows and keeps: its custom status, its keys and values.

use duroxide::{OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use super::Two;
use crate::fixture::PATIENCE;

/// Each change of the custom status is seen in the other process, in order, without asking again and again; the last is
/// kept with the result.
/// The orchestration goes on only when the change has been seen.
#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_the_custom_status_is_seen_elsewhere() {
    const STEPS: u64 = 5;
    let shows = |ctx: OrchestrationContext, _: String| async move {
        for step in 1..=STEPS {
            ctx.set_custom_status(format!("step {step}"));
            ctx.schedule_wait("seen").await;
        }
        ctx.reset_custom_status();
        Ok(ctx.get_custom_status().unwrap_or_default())
    };
    let two = Two::without_activities(OrchestrationRegistry::builder().register("shows", shows).build()).await;
    two.here.begin("shows", "shows", "").await;
    let mut seen = 0;
    for step in 1..=STEPS {
        let changed = two.there.provider.wait_for_status_change("shows", seen, PATIENCE).await.expect("waiting");
        let Some(OrchestrationStatus::Running { custom_status, custom_status_version }) = changed else {
            panic!("{changed:?}");
        };
        assert_eq!(custom_status, Some(format!("step {step}")));
        assert!(custom_status_version > seen);
        seen = custom_status_version;
        two.there.client.raise_event("shows", "seen", "").await.expect("raised");
    }
    assert_eq!(two.output("shows").await, "");
    let ended = two.here.client.get_orchestration_status("shows").await.expect("its status");
    let OrchestrationStatus::Completed { custom_status, custom_status_version, .. } = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(custom_status, None, "it was reset");
    assert_eq!(custom_status_version, seen + 1);
    assert_eq!(two.finish().await, 1);
}

/// Keys and values are read in the other process, survive continuing as new, and are gone when they were cleared.
/// The first execution sets, the second changes and clears; in between they are read from the other side.
#[tokio::test(flavor = "multi_thread")]
async fn keys_and_values_are_kept_across_executions_and_processes() {
    let keeps = |ctx: OrchestrationContext, round: String| async move {
        if round == "1" {
            ctx.set_kv_value("stays", "1");
            ctx.set_kv_value("changes", "1");
            ctx.set_kv_value("goes", "1");
            ctx.schedule_wait("next").await;
            return ctx.continue_as_new("2").await;
        }
        let kept = ctx.get_kv_all_values().len();
        ctx.set_kv_value("changes", "2");
        ctx.clear_kv_value("goes");
        ctx.schedule_wait("next").await;
        Ok(format!("{kept} {:?}", ctx.get_kv_value("changes")))
    };
    let two = Two::without_activities(OrchestrationRegistry::builder().register("keeps", keeps).build()).await;
    two.here.begin("keeps", "keeps", "1").await;
    assert_eq!(two.there.client.wait_for_kv_value("keeps", "goes", PATIENCE).await.expect("set"), "1");
    two.there.client.raise_event("keeps", "next", "").await.expect("raised");
    crate::fixture::eventually("it is cleared", async || {
        two.there.client.get_kv_value("keeps", "goes").await.expect("read").is_none()
    })
    .await;
    let values = two.here.client.get_kv_all_values("keeps").await.expect("read");
    assert_eq!(
        values,
        [("stays", "1"), ("changes", "2")].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    );
    two.here.client.raise_event("keeps", "next", "").await.expect("raised");
    assert_eq!(two.output("keeps").await, "3 Some(\"2\")");
    assert_eq!(two.there.client.get_kv_value("keeps", "stays").await.expect("read").as_deref(), Some("1"));
    assert_eq!(two.finish().await, 2);
}

/// An orchestration reads what another keeps.
#[tokio::test(flavor = "multi_thread")]
async fn an_orchestration_reads_the_values_of_another() {
    let keeps = |ctx: OrchestrationContext, _: String| async move {
        ctx.set_kv_value("answer", "42");
        Ok(String::new())
    };
    let asks = |ctx: OrchestrationContext, _: String| async move {
        let (known, unknown) = (
            ctx.get_kv_value_from_instance("keeps", "answer").await?,
            ctx.get_kv_value_from_instance("keeps", "question").await?,
        );
        Ok(format!("{known:?} {unknown:?}"))
    };
    let orchestrations = OrchestrationRegistry::builder().register("keeps", keeps).register("asks", asks).build();
    let two = Two::without_activities(orchestrations).await;
    two.here.begin("keeps", "keeps", "").await;
    two.output("keeps").await;
    two.there.begin("asks", "asks", "").await;
    assert_eq!(two.output("asks").await, "Some(\"42\") None");
    assert_eq!(two.finish().await, 2);
}
