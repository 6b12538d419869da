//! `/system/maintenance…`.

use serde_json::json;

use super::super::fixture::{Server, assert_refused, data, each, keys};
use super::Described;
use crate::http::eventually;

/// Pushes are buffered until maintenance ends, through any server; the state is reported in the documented form.
#[tokio::test]
async fn pushes_are_buffered_during_maintenance() {
    let server = Server::start().await;
    let (_other, other) = server.another().await;
    let described = Described::of(&server).await;
    let state = described.ask("GET", "/system/maintenance", "system/maintenance").await;
    assert_eq!(keys(&state).join(" "), "bufferHealthy bufferStats bufferedMessages maintenanceMode popMaintenanceMode");
    assert_eq!((&state["maintenanceMode"], &state["bufferHealthy"]), (&json!(false), &json!(true)));
    let reply = described.tell("/system/maintenance", "system/maintenance", &json!({"enabled": true}), 200).await;
    assert_eq!(reply["maintenanceMode"], true);
    assert_eq!(each(&other.push("q", "p", &["1", "2"]).await, "status"), ["buffered", "buffered"]);
    assert_eq!(server.get("system/maintenance").await.json()["bufferedMessages"], 2);
    server.pop_nothing("queue/q?batch=9").await;
    let reply = other.post("system/maintenance", &json!({"enabled": false})).await.json();
    assert_eq!((&reply["maintenanceMode"], &reply["bufferedMessages"]), (&json!(false), &json!(0)));
    assert_eq!(data(&server.pop("queue/q?batch=9").await), ["1", "2"]);
}

/// During maintenance of pops a waiting pop keeps waiting, and is answered when maintenance ends.
#[tokio::test]
async fn pops_find_nothing_under_maintenance() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    server.push("q", "p", &["1"]).await;
    let route = "/system/maintenance/pop";
    let reply = described.tell(route, "system/maintenance/pop", &json!({"enabled": true}), 200).await;
    assert_eq!((&reply["popMaintenanceMode"], &reply["maintenanceMode"]), (&json!(true), &json!(false)));
    server.pop_nothing("queue/q").await;
    server.pop_nothing("queue/q?wait=true&timeout=200").await;
    let (popped, ()) = tokio::join!(server.pop("queue/q?wait=true&timeout=20000"), async {
        eventually(server.address, "/api/v1/status", |answer| answer.json()["server"]["waitingPops"] == 1).await;
        server.post("system/maintenance/pop", &json!({"enabled": false})).await;
    });
    assert_eq!(data(&popped), ["1"]);
    assert_eq!(described.ask("GET", route, "system/maintenance/pop").await["popMaintenanceMode"], false);
    for path in ["system/maintenance", "system/maintenance/pop"] {
        assert_refused(&server.post(path, &json!({})).await, 400, "enabled");
        assert_refused(&server.post(path, &json!({"enabled": "yes"})).await, 400, "invalid body");
    }
}
