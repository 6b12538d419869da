//! `reveille up --demo`.

use std::{net::SocketAddr, time::Duration};

use reveille_pg::testing::TestDb;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    http::eventually,
    process::{PATIENCE, Reveille, command, run},
    serve::{quiet, ready, serve},
};

/// Something that a visitor must find: the path, the pointer into the response, and whether the value there is it.
type Sight = (&'static str, &'static str, fn(&Value) -> bool);

async fn sees(address: SocketAddr, (path, pointer, is_there): Sight) {
    eventually(address, path, |answer| answer.status == 200 && answer.json().pointer(pointer).is_some_and(is_there))
        .await;
}

fn is_not_empty(value: &Value) -> bool {
    value.as_array().is_some_and(|list| !list.is_empty())
}

fn is_positive(value: &Value) -> bool {
    value.as_u64().is_some_and(|number| number > 0)
}

/// Waits until everything that is served over HTTP is there.
pub(crate) async fn shows_everything(address: SocketAddr) {
    const SIGHTS: &[Sight] = &[
        ("/api/v1/resources/queues?search=demo.", "/queues/1", Value::is_object),
        ("/api/v1/resources/queues/demo.orders/depth?group=audit", "/pending", is_positive),
        ("/api/v1/messages?queue=demo.mails&status=completed", "/messages", is_not_empty),
        ("/api/v1/dlq?queue=demo.mails", "/messages", is_not_empty),
        ("/v1/tasks?namespace=demo&name=order&status=complete", "/tasks", is_not_empty),
        ("/v1/tasks?namespace=demo&name=order&status=error", "/tasks", is_not_empty),
        ("/v1/tasks?namespace=demo&name=import&status=complete", "/tasks", is_not_empty),
        ("/v1/tasks?namespace=demo&name=inspection", "/tasks/0/completed_at", Value::is_null),
        ("/v1/schedules?template=digest", "/schedules", is_not_empty),
        ("/v1/dlq", "/entries", is_not_empty),
    ];
    for sight in SIGHTS {
        sees(address, *sight).await;
    }
}

/// The demo must show each kind of thing: consumed, lagging and dead messages; complete, failed and waiting tasks,
/// batches and schedules; complete and failed orchestrations. Ctrl-C must stop it in order, and a healthy run must warn
/// of nothing. `up --demo` on a schema of the test server; everything is read through the API, and instances from the
/// table.
#[tokio::test]
async fn the_demo_shows_what_works_lags_and_fails() {
    let db = TestDb::new().await;
    let mut up = command(&["up", "--demo", "--listen", "127.0.0.1:0"]);
    up.env("DATABASE_URL", db.url()).env("REVEILLE_SCHEMA", db.schema().name());
    let reveille = Reveille::start(up);
    reveille.line("Ctrl-C stops it").await;
    let address = reveille.address().await;

    shows_everything(address).await;
    for (name, status) in [("PlanTrip", "Completed"), ("PlanTrip", "Failed"), ("ApproveTrip", "Completed")] {
        let query =
            db.schema().sql("select count(*) from {schema}.instances where orchestration_name = $1 and status = $2");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let count = sqlx::query_scalar::<_, i64>(query.clone()).bind(name).bind(status);
            if count.fetch_one(db.database().pool()).await.expect("counted") > 0 {
                break;
            }
            assert!(Instant::now() < deadline, "no {name} is {status}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    reveille.signal("INT").await;
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    assert!(!ended.output.contains("WARN") && !ended.output.contains("ERROR"), "{}", ended.output);
}

/// The same clients must run against a server that is there already and end well with
/// Ctrl-C; without a server they must end at once.
#[tokio::test]
async fn the_demo_runs_against_another_server() {
    let db = TestDb::new().await;
    let (server, address) = ready(serve(&db, &[])).await;
    let demo = Reveille::start(command(&["demo", "--server", &format!("http://{address}")]));
    demo.line("Ctrl-C ends it").await;
    sees(address, ("/api/v1/messages?queue=demo.mails&status=completed", "/messages", is_not_empty)).await;
    demo.signal("INT").await;
    let ended = demo.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    quiet(server).await;
    let nothing = run(command(&["demo", "--server", &format!("http://{address}")])).await;
    assert_eq!(nothing.status.code(), Some(4), "{}", nothing.output);
}
