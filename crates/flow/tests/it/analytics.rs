//! Analytics: the outcomes of tasks, and where they spent their time.

use reveille_flow::Error;
use serde_json::json;
use time::{Duration, OffsetDateTime};

use crate::fixture::{Fixture, NAMESPACE};

/// Counts, rates and durations by template and by step cover the tasks that ran; others do not count.
/// The times are set in the rows.
#[tokio::test]
async fn analytics_cover_tasks_that_ran() {
    let flow =
        Fixture::with("[{name: a, retry: {max_attempts: 2, backoff: none}}, {name: b, dependencies: [a]}]").await;
    let since = OffsetDateTime::now_utc() - Duration::minutes(5);
    let empty = flow.performance(None, since).await.expect("an answer");
    assert!(empty.templates.is_empty() && !empty.truncated);
    for fails in [false, false, true] {
        flow.task().await;
        let a = flow.next().await;
        flow.fail(&a, true).await;
        let a = flow.next().await;
        if fails {
            flow.fail(&a, false).await;
        } else {
            flow.complete(&a, json!(1)).await;
            flow.complete(&flow.next().await, json!(1)).await;
        }
    }
    flow.task().await;
    let set = [
        "update {schema}.attempt set ready_at = ended_at - interval '5 s', claimed_at = ended_at - interval '3 s' where ordinal = 0",
        "update {schema}.attempt set ready_at = ended_at - interval '2 s', claimed_at = ended_at - interval '1 s' where ordinal = 1",
        "update {schema}.task set ended_at = created_at + interval '9 s' where ended_at is not null",
    ];
    for sql in set {
        sqlx::query(flow.db.schema().sql(sql)).execute(flow.db.database().pool()).await.expect("known times");
    }
    let report = flow.performance(Some(NAMESPACE), since).await.expect("an answer");
    let [of] = &report.templates[..] else { panic!("one template: {report:?}") };
    assert_eq!((of.tasks, of.open, of.complete, of.error, of.attempts), (4, 1, 2, 1, 8));
    assert_eq!(of.success_rate.map(|rate| (rate * 100.0) as u32), Some(66));
    let ms = |spread: Option<reveille_flow::Spread>| spread.map(|spread| (spread.p50_ms as u64, spread.p95_ms as u64));
    assert_eq!((ms(of.duration), ms(of.queue_wait)), (Some((9_000, 9_000)), Some((2_000, 2_000))));

    let report = flow.bottlenecks(None, since, 10).await.expect("an answer");
    let steps: Vec<_> = report.steps.iter().map(|one| (one.step.as_str(), one.attempts, one.failed)).collect();
    assert_eq!(steps, [("a", 6, 4), ("b", 2, 0)], "the slowest first");
    assert_eq!(
        (ms(report.steps[0].queue_wait), ms(report.steps[0].duration)),
        (Some((2_000, 2_000)), Some((3_000, 3_000)))
    );
    assert_eq!(report.steps[1].total_duration_ms as u64, 2_000);
    assert_eq!(flow.bottlenecks(None, since, 1).await.expect("an answer").steps.len(), 1);

    let later = OffsetDateTime::now_utc() + Duration::minutes(5);
    assert!(flow.performance(None, later).await.expect("an answer").templates.is_empty());
    assert!(flow.performance(Some("nowhere"), since).await.expect("an answer").templates.is_empty());
    let error = flow.bottlenecks(None, since, 0).await.expect_err("refused");
    assert!(matches!(error, Error::Invalid { what: "limit", .. }), "{error}");
}
