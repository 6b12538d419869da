//! `POST /lease/{leaseId}/extend`.

use serde_json::{Value, json};

use super::fixture::{Server, assert_refused, keys};
use crate::http::send;

/// A lease must be extended by a request without a body or a content type, and the response must be an object with the
/// time under each name that a client reads.
/// Sends what existing clients send.
#[tokio::test]
async fn a_lease_is_extended_without_a_body() {
    let server = Server::start().await;
    server.push("q", "a", &["1"]).await;
    server.push("q", "b", &["2"]).await;
    let popped = server.pop("queue/q?batch=9&partitions=2").await;
    let lease = popped["leaseId"].as_str().expect("a lease");
    let answer = send(server.address, "POST", &format!("/api/v1/lease/{lease}/extend"), &[], b"").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let reply = answer.json();
    let expected = "error expiresAt leaseId lease_expires_at newExpiresAt renewed success";
    assert_eq!(keys(&reply).join(" "), expected);
    let (success, renewed, error) = (&reply["success"], &reply["renewed"], &reply["error"]);
    assert_eq!((success, renewed, error, &reply["leaseId"]), (&json!(true), &json!(2), &Value::Null, &json!(lease)));
    assert!(reply["expiresAt"].as_str().is_some_and(|time| time.ends_with('Z')), "{reply}");
    assert_eq!((&reply["newExpiresAt"], &reply["lease_expires_at"]), (&reply["expiresAt"], &reply["expiresAt"]));
}

/// A lease never becomes shorter, and one that is extended without a time lasts at least as long as the queue
/// configures.
/// Extended by an hour, then by a second, then without a time.
#[tokio::test]
async fn a_lease_never_becomes_shorter() {
    let server = Server::start().await;
    server.push("q", "p", &["1"]).await;
    server.set("q", "lease_seconds = 1000").await;
    let popped = server.pop("queue/q").await;
    let path = format!("lease/{}/extend", popped["leaseId"].as_str().expect("a lease"));
    let until = async |body: Value| server.post(&path, &body).await.json()["expiresAt"].clone();
    let seconds = |time: &Value| {
        let sql = "select extract(epoch from $1::text::timestamptz - now())::float8";
        let time = time.as_str().expect("a time").to_owned();
        let pool = server.db.database().pool().clone();
        async move { sqlx::query_scalar::<_, f64>(sql).bind(time).fetch_one(&pool).await.expect("a number") }
    };
    let (queues, hour) = (until(json!({})).await, until(json!({"seconds": 3600})).await);
    assert!((990.0..=1000.0).contains(&seconds(&queues).await), "{queues}");
    assert!((3590.0..=3600.0).contains(&seconds(&hour).await), "{hour}");
    assert_eq!(until(json!({"seconds": 1})).await, hour);
    assert_eq!(until(json!({})).await, hour);
}

/// An expired lease must be reported as such, with 200: the client then does not retry.
/// One that was acked, one that never existed, one with an invalid id.
#[tokio::test]
async fn an_expired_lease_is_reported() {
    let server = Server::start().await;
    server.push("q", "p", &["1"]).await;
    let popped = server.pop("queue/q").await;
    server.ack(&popped, "completed").await;
    let acked = popped["leaseId"].as_str().expect("a lease");
    for lease in [acked, "0197a5a0-0000-7000-8000-000000000000", "not-a-lease", "a%2Fb"] {
        let answer = server.post(&format!("lease/{lease}/extend"), &json!({})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let reply = answer.json();
        assert_eq!((&reply["success"], &reply["renewed"]), (&json!(false), &json!(0)));
        assert_eq!(
            (&reply["expiresAt"], &reply["error"]),
            (&Value::Null, &json!("the lease has expired or was released"))
        );
    }
}

/// An invalid time is rejected, and one beyond the longest lease is cut.
/// A table of them on a current lease.
#[tokio::test]
async fn an_invalid_extension_is_rejected() {
    let server = Server::start().await;
    server.push("q", "p", &["1"]).await;
    let path = format!("lease/{}/extend", server.pop("queue/q").await["leaseId"].as_str().expect("a lease"));
    for (body, message) in [
        (json!({"seconds": 0}), "seconds"),
        (json!({"seconds": -5}), "seconds"),
        (json!({"seconds": "long"}), "invalid body"),
        (json!([]), "invalid body"),
    ] {
        assert_refused(&server.post(&path, &body).await, 400, message);
    }
    for seconds in [json!(1e300), json!(0.5), Value::Null] {
        assert_eq!(server.post(&path, &json!({"seconds": seconds})).await.json()["success"], true, "{seconds}");
    }
}
