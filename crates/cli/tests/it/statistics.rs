//! The metrics of a server: the values that operators alert on, in the format of Prometheus.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::http::{Answer, eventually, get, send};
use crate::process::PATIENCE;
use crate::queue::fixture::Server;
use crate::serve::quiet;

/// The value of the sample whose line starts with this text.
fn value(metrics: &Answer, sample: &str) -> Option<f64> {
    let line = metrics.body.lines().find(|line| line.strip_prefix(sample).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Depth, lag, age, dead letters and message counts of a queue and its group, the pool and errors are exported under
/// their documented names, and change with the work. Messages are pushed, and one is popped and becomes a dead letter.
#[tokio::test]
async fn queue_metrics_are_exported() {
    let server = Server::start().await;
    let items: Vec<_> = (0..3).map(|n| json!({"queue": "orders", "payload": n})).collect();
    assert_eq!(server.post("push", &json!({"items": items})).await.status, 201);
    let popped = server.get("pop/queue/orders?consumerGroup=billing&subscriptionMode=all&batch=1").await.json();
    let message = &popped["messages"][0];
    let ack = json!({
        "transactionId": message["transactionId"], "partitionId": message["partitionId"], "leaseId": message["leaseId"],
        "status": "dlq", "consumerGroup": "billing", "error": "no such customer",
    });
    let acked = server.post("ack", &ack).await;
    assert!(acked.status < 300, "{acked:?}");

    let address = server.client.address;
    let dead = r#"reveille_queue_dead_letters{queue="orders"}"#;
    let metrics = eventually(address, "/metrics", |answer| value(answer, dead) == Some(1.0)).await;
    let expected = [
        (r#"reveille_queue_depth{queue="orders"}"#, 2.0),
        (r#"reveille_queue_partitions{queue="orders"}"#, 1.0),
        (r#"reveille_queue_group_lag{queue="orders",group="billing"}"#, 2.0),
        ("reveille_pool_connections_limit", 10.0),
        (r#"reveille_database_errors_total{kind="exhausted"}"#, 0.0),
        (r#"reveille_statistics_failures_total{product="queue"}"#, 0.0),
        (r#"reveille_queue_messages_pushed_total{queue="orders"}"#, 3.0),
        (r#"reveille_queue_messages_delivered_total{queue="orders",group="billing"}"#, 1.0),
        (r#"reveille_queue_messages_acked_total{queue="orders",group="billing"}"#, 0.0),
        (r#"reveille_queue_messages_failed_total{queue="orders",group="billing"}"#, 0.0),
        (r#"reveille_queue_messages_dead_lettered_total{queue="orders",group="billing"}"#, 1.0),
    ];
    for (sample, expected) in expected {
        assert_eq!(value(&metrics, sample), Some(expected), "{sample} in\n{}", metrics.body);
    }
    for sample in [
        r#"reveille_queue_oldest_message_seconds{queue="orders"}"#,
        r#"reveille_queue_group_oldest_message_seconds{queue="orders",group="billing"}"#,
        r#"reveille_pool_connections{state="idle"}"#,
    ] {
        assert!(value(&metrics, sample).is_some_and(|value| value > 0.0), "{sample} in\n{}", metrics.body);
    }
    quiet(server.reveille).await;
}

/// Tasks, steps, failures and orchestrations are exported as well, and include the work of other processes.
/// A template is registered and a task submitted; messages, activities and instances are written by another program.
#[tokio::test]
async fn task_and_orchestration_metrics_are_exported() {
    let server = Server::start().await;
    let address = server.client.address;
    let template = "name: t\nnamespace_name: billing\nversion: 1.0.0\nsteps: [{name: a, handler: {callable: h}}]\n";
    let made = send(address, "POST", "/v1/templates", &["content-type: application/yaml"], template.as_bytes()).await;
    assert!(made.status < 300, "{made:?}");
    let task = json!({"name": "t", "namespace": "billing", "version": "1.0.0", "context": {}});
    let json = "content-type: application/json";
    let made = send(address, "POST", "/v1/tasks", &[json], task.to_string().as_bytes()).await;
    assert!(made.status < 300, "{made:?}");
    for sql in [
        "insert into {schema}.instances (instance_id, orchestration_name, current_execution_id, status)
         select 'i' || n, 'o', 1, case n when 1 then 'Failed' else 'Running' end from generate_series(1, 3) as n",
        "insert into {schema}.worker_queue (execution_id, activity_id, instance_id, work_item) values (1, 1, 'i2', '{}')",
        "insert into {schema}.orchestrator_queue (instance_id, work_item) values ('i2', '{}'), ('i3', '{}')",
    ] {
        let sql = server.db.schema().sql(sql);
        sqlx::query(&sql).execute(server.db.database().pool()).await.expect("inserted");
    }
    let due = |answer: &Answer| value(answer, "reveille_durable_messages_due") == Some(2.0);
    let metrics = eventually(address, "/metrics", due).await;
    for (sample, expected) in [
        (r#"reveille_flow_tasks{namespace="billing",state="open"}"#, 1.0),
        (r#"reveille_flow_open_tasks{namespace="billing",state="enqueuing_steps"}"#, 1.0),
        (r#"reveille_flow_steps{namespace="billing",state="ready"}"#, 1.0),
        (r#"reveille_flow_tasks_with_failures{namespace="billing"}"#, 0.0),
        ("reveille_flow_investigations_open", 0.0),
        (r#"reveille_durable_orchestrations{status="Running"}"#, 2.0),
        (r#"reveille_durable_orchestrations{status="Failed"}"#, 1.0),
        (r#"reveille_durable_activities{state="waiting"}"#, 1.0),
        ("reveille_durable_turns_running", 0.0),
    ] {
        assert_eq!(value(&metrics, sample), Some(expected), "{sample} in\n{}", metrics.body);
    }
    let oldest = r#"reveille_flow_oldest_ready_step_seconds{namespace="billing"}"#;
    assert!(value(&metrics, oldest).is_some_and(|age| age > 0.0), "{}", metrics.body);
    quiet(server.reveille).await;
}

/// The number of time series does not grow with the number of queues.
/// One of five queues may have its own series; the others are summed up in one sample without a name.
#[tokio::test]
async fn queues_beyond_the_limit_share_a_sample() {
    let server = Server::with(&["--metrics-top", "1"]).await;
    for queue in 1..=5 {
        let items: Vec<_> = (0..queue).map(|n| json!({"queue": format!("q{queue}"), "payload": n})).collect();
        assert_eq!(server.post("push", &json!({"items": items})).await.status, 201);
    }
    let metrics = eventually(server.client.address, "/metrics", |answer| {
        value(answer, r#"reveille_queue_depth{queue="q5"}"#) == Some(5.0)
            && value(answer, "reveille_queue_depth") == Some(10.0)
    })
    .await;
    assert_eq!(metrics.body.lines().filter(|line| line.starts_with("reveille_queue_depth")).count(), 2);
    let pushed = "reveille_queue_messages_pushed_total";
    let first = format!("{pushed}{{queue=\"q1\"}}");
    assert_eq!((value(&metrics, &first), value(&metrics, pushed)), (Some(1.0), Some(14.0)));
    assert_eq!(metrics.body.lines().filter(|line| line.starts_with(pushed)).count(), 2);
    quiet(server.reveille).await;
}

/// promtool, from PATH or from where `scripts/promtool.sh` puts it.
pub(crate) fn promtool() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder of what is built");
    let own = built.join("promtool");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).chain([own]).map(|folder| folder.join("promtool")).find(|it| it.is_file());
    found.or_else(|| reveille_pg::testing::skip("promtool, to check the metrics (scripts/promtool.sh)"))
}

/// promtool must accept the metrics of a server that has worked.
/// Among them are queue names with characters that need escaping.
#[tokio::test]
async fn promtool_accepts_the_metrics() {
    let Some(promtool) = promtool() else { return };
    let server = Server::start().await;
    let name = "a \"quoted\" name \\ with\nlines";
    let pushed = server.post("push", &json!({"items": [{"queue": name, "payload": 1}]})).await;
    assert_eq!(pushed.status, 201, "{pushed:?}");
    let popped = server.get("pop/queue/a%20%22quoted%22%20name%20%5C%20with%0Alines?autoAck=true").await;
    assert_eq!(popped.status, 200, "{popped:?}");
    let known =
        |answer: &Answer| answer.body.contains("queue_depth{queue") && answer.body.contains("acked_total{queue");
    let metrics = eventually(server.client.address, "/metrics", known).await;
    assert!(get(server.client.address, "/health").await.status == 200);
    let mut checking = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    let mut input = checking.stdin.take().expect("its input is piped");
    input.write_all(metrics.body.as_bytes()).await.expect("it reads");
    drop(input);
    let checked = tokio::time::timeout(PATIENCE, checking.wait_with_output()).await.expect("in time").expect("it ends");
    let output = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && output.trim().is_empty(), "{output}");
    quiet(server.reveille).await;
}
