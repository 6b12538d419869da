//! Servers that are killed or stopped, and a namespace created at another server.

use serde_json::json;
use tokio::time::Instant;

use super::super::claims::{answered, wait};
use super::super::fixture::{JSON, Server, claim, text, wanted};
use super::crowd::Crowd;

/// Steps completed between one fault and the next.
const LOAD: usize = 120;

/// A killed server loses nothing that it acknowledged and no claimed step; another server takes over. Two servers under
/// load; one is killed, and its clients repeat unanswered requests at the other. It is restarted and gets new clients.
/// All responses are compared with the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing() {
    let server = Server::start().await;
    let (doomed, elsewhere) = server.another().await;
    let mut crowd = Crowd::gather(&server, &[elsewhere.address, server.address]).await;
    crowd.busy(LOAD).await;
    doomed.signal("KILL").await;
    assert!(!doomed.ended().await.status.success());
    crowd.busy(LOAD).await;
    let (_again, elsewhere) = server.another().await;
    crowd.join(&[elsewhere.address, server.address], 1, 2);
    crowd.busy(LOAD).await;
    assert!(crowd.unanswered() > 0, "no client used the killed server");
    crowd.finish(server.db.database().pool(), server.db.schema()).await;
}

/// A stopping server answers waiting claims with 204 at once. Steps claimed through it are completed through another
/// server, and no attempt is counted. Both servers are under load; steps with another name are claimed only at the one
/// that stops.
#[tokio::test(flavor = "multi_thread")]
async fn steps_claimed_at_a_stopping_server_are_completed_at_another() {
    let server = Server::of("[{name: held}]").await;
    let (stopping, there) = server.another().await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(server.task(json!({})).await);
    }
    let mut request = claim(3, 0);
    request["steps"] = json!(["held"]);
    let held = there.post("workers/claim", &request).await.json()["steps"].clone();
    let held = held.as_array().expect("steps");
    assert_eq!(held.len(), tasks.len());
    let waiting: Vec<_> = (0..3).map(|_| wait(&there, Some(&["held"]))).collect();
    there.until_waiting(waiting.len()).await;
    let crowd = Crowd::gather(&server, &[there.address, server.address]).await;
    crowd.busy(LOAD).await;

    let since = Instant::now();
    stopping.signal("TERM").await;
    for waiting in waiting {
        let answer = answered(waiting).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{answer:?}");
    }
    println!("waiting claims were answered {:?} after the signal", since.elapsed());
    let ended = stopping.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    crowd.busy(LOAD).await;

    let done: Vec<_> = held.iter().map(|step| json!({"token": step["token"], "result": 1})).collect();
    let reply = server.report("complete", json!(done)).await;
    assert!(reply.iter().all(|reply| reply["ok"] == true && reply["task_state"] == "complete"), "{reply:?}");
    for task in &tasks {
        let done = server.get(&format!("tasks/{task}")).await.json();
        assert_eq!((&done["status"], &done["steps"][0]["attempts"]), (&json!("complete"), &json!(1)), "{done}");
    }
    crowd.finish(server.db.database().pool(), server.db.schema()).await;
}

/// A namespace that is created while servers run is served by all of them at once, with its settings, also for waiting
/// claims. Claims wait at one server for two namespaces that do not exist yet. Both are created at another; one has its
/// own template and polls. Then each gets a task.
#[tokio::test]
async fn a_namespace_created_elsewhere_is_served_to_waiting_claims() {
    let server = Server::start().await;
    let (_other, elsewhere) = server.another().await;
    let waits = |namespace: &'static str| {
        let client = server.client.clone();
        let mut request = claim(1, 60_000);
        request["namespaces"] = json!(["tests", namespace]);
        tokio::spawn(async move { (client.post("workers/claim", &request).await, Instant::now()) })
    };
    let (notified, polled) = (waits("notified"), waits("polled"));
    server.until_waiting(2).await;
    for (namespace, settings, waiting) in
        [("notified", json!({}), notified), ("polled", json!({"mode": "polling", "poll_ms": 20}), polled)]
    {
        let made = format!("namespaces/{namespace}");
        let made = elsewhere.send("PUT", &made, &[JSON], settings.to_string().as_bytes()).await;
        assert_eq!(made.status, 200, "{made:?}");
        let template = format!("name: t\nnamespace_name: {namespace}\nsteps: [{{name: a}}]\n");
        let registered =
            elsewhere.send("POST", "templates", &["content-type: application/yaml"], template.as_bytes()).await;
        assert_eq!(registered.status, 201, "{registered:?}");
        let mut task = wanted("t", json!({}));
        task["namespace"] = json!(namespace);
        let since = Instant::now();
        let task = text(&elsewhere.post("tasks", &task).await.json()["task_uuid"]);
        let (answer, at) = waiting.await.expect("no panic");
        assert_eq!(answer.status, 200, "{namespace}: {answer:?}");
        println!("{namespace}: claimed {:?} after it was submitted", at - since);
        assert_eq!(answer.json()["steps"][0]["task_uuid"], json!(task), "{namespace}");
    }
}
