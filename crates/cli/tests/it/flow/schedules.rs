//! `/v1/schedules…`.

use serde_json::{Value, json};

use super::fixture::{JSON, Server};
use crate::http::assert_refused;

/// A schedule is created, returned with its next ticks, paused and resumed, run manually, and deleted.
#[tokio::test]
async fn a_schedule_is_created_paused_run_and_deleted() {
    let server = Server::of("[{name: a}]").await;
    let put = async |body: Value| server.send("PUT", "schedules", &[JSON], body.to_string().as_bytes()).await;
    let schedule = json!({"namespace": "tests", "name": "nightly", "template": "t", "version": "1.0.0", "cron": "0 4 * * *",
                          "time_zone": "Europe/Berlin", "context": {"n": 1}});
    let made = put(schedule.clone()).await;
    assert_eq!(made.status, 200, "{made:?}");
    assert_eq!((&made.json()["cron"], &made.json()["paused"]), (&json!("0 4 * * *"), &json!(false)));
    assert_eq!(put(schedule.clone()).await.json()["schedule_uuid"], made.json()["schedule_uuid"]);
    let shown = server.get("schedules/tests/nightly?upcoming=3").await.json();
    assert_eq!(shown["upcoming"].as_array().map(Vec::len), Some(3), "{shown}");
    let post = async |path: &str| server.send("POST", path, &[], b"").await;
    assert_eq!(post("schedules/tests/nightly/pause").await.json()["paused"], true);
    assert_eq!(server.get("schedules?paused=true&template=t").await.json()["schedules"][0]["name"], "nightly");
    assert_eq!(server.get("schedules?paused=false").await.json()["schedules"], json!([]));
    let run = post("schedules/tests/nightly/run").await;
    assert_eq!(run.status, 201, "{run:?}");
    let step = server.now(9).await.remove(0);
    assert_eq!((&step["task_uuid"], &step["context"]), (&run.json()["task_uuid"], &json!({"n": 1})));
    assert_eq!(post("schedules/tests/nightly/resume").await.json()["paused"], false);
    assert_eq!(server.send("DELETE", "schedules/tests/nightly", &[], b"").await.status, 204);
    assert_refused(&server.get("schedules/tests/nightly").await, 404, "nightly");
    assert_refused(&server.send("DELETE", "schedules/tests/nightly", &[], b"").await, 404, "nightly");
    for (key, value, status, message) in [
        ("cron", json!("now and then"), 400, "cron"),
        ("time_zone", json!("Mars/Olympus"), 400, "time_zone"),
        ("template", json!("none"), 404, "no template"),
        ("at", json!("2030-01-01T00:00:00Z"), 400, "at"),
        ("colour", json!("red"), 400, "colour"),
    ] {
        let mut wrong = schedule.clone();
        wrong[key] = value;
        assert_refused(&put(wrong).await, status, message);
    }
    assert_refused(&server.get("schedules/a%00/b").await, 400, "namespace");
}
