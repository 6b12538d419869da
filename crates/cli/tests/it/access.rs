//! Authentication and roles: every route with every role, names in bodies, and revocation on two servers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use reveille_pg::testing::TestDb;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::{Answer, assert_refused, get, send};
use crate::process::{PATIENCE, Reveille};
use crate::serve::{ready, serve};

/// The admin token of the configuration.
pub(crate) const ADMIN: &str = "an-admin-token-for-tests";
/// The needs of all routes, for review: method, path, role.
const NEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/access_needs.txt");

/// A server that requires authentication.
pub(crate) async fn secured(db: &TestDb) -> (Reveille, SocketAddr) {
    let mut command = serve(db, &["--require-authentication"]);
    command.env("REVEILLE_ADMIN_TOKEN", ADMIN);
    ready(command).await
}

pub(crate) async fn call(address: SocketAddr, token: &str, method: &str, path: &str, body: &Value) -> Answer {
    let authorization = format!("authorization: Bearer {token}");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    send(address, method, path, &[&authorization, "content-type: application/json"], body.as_bytes()).await
}

/// Creates a token and returns its text and its id.
async fn token(address: SocketAddr, name: &str, grants: Value, payloads: bool) -> (String, String) {
    let request = json!({"name": name, "grants": grants, "payloads": payloads});
    let created = call(address, ADMIN, "POST", "/v1/tokens", &request).await;
    assert_eq!(created.status, 201, "{created:?}");
    let created = created.json();
    (created["token"].as_str().expect("a text").to_owned(), created["id"].as_str().expect("an id").to_owned())
}

/// The status and the start of a response, which may never end.
async fn begin(address: SocketAddr, token: &str, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let authorization = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    let text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{authorization}connection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.expect("sent");
    let mut answer = vec![0; 4096];
    let mut length = 0;
    while length < answer.len() {
        let more = timeout(PATIENCE, stream.read(&mut answer[length..])).await.expect("in time").expect("read");
        length += more;
        let complete = answer[..length].windows(4).any(|window| window == b"\r\n\r\n");
        let is_error = answer.starts_with(b"HTTP/1.1 4") || answer.starts_with(b"HTTP/1.1 5");
        if more == 0 || (complete && !is_error) {
            break;
        }
    }
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    (answer[9..12].parse().expect("a status"), answer)
}

/// Every route of the OpenAPI document is open, needs credentials, or needs a role; none is forgotten, and the roles
/// are those that were reviewed. Each route is requested without credentials and with a token of each role. A role
/// passes if the response is not 401 or 403; what it is else does not matter, because the requests have no body and
/// names that do not exist. The result is compared with a committed table.
#[tokio::test]
async fn every_route_needs_the_reviewed_role() {
    let db = TestDb::new().await;
    let (_server, address) = secured(&db).await;
    let roles = ["viewer", "producer", "worker", "operator", "admin"];
    let mut tokens = BTreeMap::new();
    for role in roles {
        tokens.insert(role, token(address, role, json!([{"role": role}]), true).await.0);
    }
    let document = get(address, "/openapi.json").await.json();
    let mut table = String::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for method in operations.as_object().expect("operations").keys() {
            let method = method.to_uppercase();
            let concrete: String = path
                .split('/')
                .map(|part| match part {
                    "{task_uuid}" | "{partitionId}" | "{leaseId}" => "00000000-0000-4000-8000-000000000000",
                    "{id}" if path.starts_with("/v1/dlq") => "1",
                    "{id}" => "00000000-0000-4000-8000-000000000000",
                    part if part.starts_with('{') => "missing",
                    part => part,
                })
                .collect::<Vec<_>>()
                .join("/");
            let allowed = async |token: &str| {
                let (status, answer) = begin(address, token, &method, &concrete).await;
                assert!(!answer.contains("has no entry"), "{method} {path}: {answer}");
                !(status == 401 || status == 403)
            };
            let need = if allowed("").await {
                "open".to_owned()
            } else {
                let mut passed = Vec::new();
                for role in roles {
                    if allowed(&tokens[role]).await {
                        passed.push(role);
                    }
                }
                passed.join(" ")
            };
            table.push_str(&format!("{method} {path}: {need}\n"));
        }
    }
    if std::env::var_os("REVEILLE_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(NEEDS, &table).expect("written");
    }
    let reviewed = std::fs::read_to_string(NEEDS).expect("the table");
    for (now, reviewed) in table.lines().zip(reviewed.lines()) {
        assert_eq!(now, reviewed);
    }
    assert_eq!(table, reviewed);
}

/// Credentials that are not valid are rejected on every route before the body is read, and with the challenge that
/// clients expect. The body is announced and never sent.
#[tokio::test]
async fn requests_without_valid_credentials_are_rejected() {
    let db = TestDb::new().await;
    let (_server, address) = secured(&db).await;
    for authorization in ["", "authorization: Bearer wrong\r\n", "authorization: Basic YTpi\r\n"] {
        let text = format!(
            "POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n{authorization}content-type: application/json\r\n\
             connection: close\r\ncontent-length: 1000000\r\n\r\n"
        );
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(text.as_bytes()).await.expect("sent");
        let mut start = [0; 12];
        timeout(PATIENCE, stream.read_exact(&mut start)).await.expect("without the body").expect("an answer");
        assert_eq!(&start, b"HTTP/1.1 401", "{authorization}");
    }
    let refused = get(address, "/v1/tasks").await;
    assert_refused(&refused, 401, "Authorization: Bearer");
    assert!(refused.headers.contains("www-authenticate: bearer"), "{refused:?}");
    assert_eq!(get(address, "/health").await.status, 200);
    assert_refused(&get(address, "/metrics").await, 401, "Authorization: Bearer");
    assert_eq!(call(address, ADMIN, "GET", "/metrics", &Value::Null).await.status, 200);
}

/// A server on a loopback address is open unless authentication is required: every client may do everything.
#[tokio::test]
async fn an_open_server_asks_for_no_credentials() {
    let db = TestDb::new().await;
    let (_server, address) = ready(serve(&db, &[])).await;
    let me = get(address, "/v1/me").await;
    assert_eq!(
        me.json(),
        json!({"name": "anyone", "credentials": "open", "grants": [{"role": "admin"}], "payloads": true})
    );
    let (text, _) = {
        let request = json!({"name": "viewer", "grants": [{"role": "viewer"}]});
        let created =
            send(address, "POST", "/v1/tokens", &["content-type: application/json"], request.to_string().as_bytes())
                .await;
        (created.json()["token"].as_str().expect("a text").to_owned(), ())
    };
    let me = call(address, &text, "GET", "/v1/me", &Value::Null).await;
    assert_eq!((me.json()["name"].as_str(), me.json()["credentials"].as_str()), (Some("viewer"), Some("token")));
    let refused = call(address, &text, "DELETE", "/api/v1/resources/queues/a", &Value::Null).await;
    assert_refused(&refused, 403, "this needs the role admin for the queue \"a\"; \"viewer\" is granted: viewer");
}

/// A role for some queues or namespaces covers names in paths, parameters and bodies, and no others.
#[tokio::test]
async fn a_role_covers_only_its_queues_and_namespaces() {
    let db = TestDb::new().await;
    let (_server, address) = secured(&db).await;
    let grants = json!([
        {"role": "producer", "queues": "orders.*"},
        {"role": "worker", "queues": "orders.*"},
        {"role": "viewer", "queues": "orders.*", "namespaces": "shop"},
        {"role": "operator", "namespaces": "shop"},
    ]);
    let (shop, _) = token(address, "shop", grants, true).await;
    let push = |queue: &str| json!({"items": [{"queue": "orders.eu", "payload": 1}, {"queue": queue, "payload": 2}]});
    let pushed = call(address, &shop, "POST", "/api/v1/push", &push("orders.us")).await;
    assert_eq!(pushed.status, 201, "{pushed:?}");
    let refused = call(address, &shop, "POST", "/api/v1/push", &push("mail")).await;
    assert_refused(&refused, 403, "this needs the role producer for the queue \"mail\"");
    let transaction =
        |queue: &str| json!({"operations": [{"type": "push", "items": [{"queue": queue, "payload": 1}]}]});
    let done = call(address, &shop, "POST", "/api/v1/transaction", &transaction("orders.eu")).await;
    assert_eq!(done.json()["success"], true, "{done:?}");
    let refused = call(address, &shop, "POST", "/api/v1/transaction", &transaction("mail")).await;
    assert_refused(&refused, 403, "the queue \"mail\"");

    // The messages have their producer, and an ack names its queue by a partition.
    let popped = call(address, &shop, "GET", "/api/v1/pop/queue/orders.eu", &Value::Null).await.json();
    assert_eq!(popped["messages"][0]["producerSub"], "shop", "{popped}");
    let acked = |popped: &Value| {
        let message = &popped["messages"][0];
        json!({"transactionId": message["transactionId"], "partitionId": popped["partitionId"], "leaseId": popped["leaseId"]})
    };
    let call_acked = call(address, &shop, "POST", "/api/v1/ack", &acked(&popped)).await;
    assert_eq!(call_acked.json()[0]["success"], true, "{call_acked:?}");
    let mail = json!({"items": [{"queue": "mail", "payload": 1}]});
    assert_eq!(call(address, ADMIN, "POST", "/api/v1/push", &mail).await.status, 201);
    let popped = call(address, ADMIN, "GET", "/api/v1/pop/queue/mail", &Value::Null).await.json();
    let refused = call(address, &shop, "POST", "/api/v1/ack", &acked(&popped)).await;
    assert_refused(&refused, 403, "this needs the role worker for the queue \"mail\"");
    let message = format!(
        "/api/v1/messages/{}/{}",
        popped["partitionId"].as_str().expect("an id"),
        popped["messages"][0]["transactionId"].as_str().expect("an id")
    );
    assert_refused(&call(address, &shop, "GET", &message, &Value::Null).await, 403, "the queue \"mail\"");

    for (path, status) in [
        ("/api/v1/pop/queue/mail", 403),
        ("/api/v1/pop/queue/orders.eu", 200),
        ("/api/v1/messages", 403),
        ("/api/v1/messages?queue=orders.eu", 200),
        ("/v1/tasks", 403),
        ("/v1/tasks?namespace=shop", 200),
        ("/v1/tasks?namespace=other", 403),
        ("/v1/schedules/other/daily", 403),
        ("/v1/schedules/shop/daily", 404),
        ("/api/v1/pop/queue/orders.eu/other", 403),
    ] {
        let answer = call(address, &shop, "GET", path, &Value::Null).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
    let refused = call(address, &shop, "GET", "/v1/tasks", &Value::Null).await;
    assert_refused(&refused, 403, "name one with the parameter `namespace`");
}

/// The scope of a task is that of its namespace, although its path does not name it.
#[tokio::test]
async fn a_task_has_the_scope_of_its_namespace() {
    let db = TestDb::new().await;
    let (_server, address) = secured(&db).await;
    let steps = json!([{"name": "one", "type": "standard", "handler": {"callable": "one"}}]);
    for namespace in ["shop", "bank"] {
        let template = json!({"namespace": namespace, "name": "t", "version": "1.0.0", "steps": steps});
        let registered = call(address, ADMIN, "POST", "/v1/templates", &template).await;
        assert_eq!(registered.status, 201, "{registered:?}");
    }
    let everything = json!([
        {"role": "operator", "namespaces": "shop"},
        {"role": "producer", "namespaces": "shop"},
        {"role": "worker", "namespaces": "shop"},
    ]);
    let (shop, _) = token(address, "shop", everything, true).await;
    let submit = |namespace: &str| json!({"namespace": namespace, "name": "t", "version": "1.0.0", "context": {}});
    let refused = call(address, &shop, "POST", "/v1/tasks", &submit("bank")).await;
    assert_refused(&refused, 403, "this needs the role producer for the namespace \"bank\"");
    let mut tasks = Vec::new();
    for (namespace, token) in [("shop", shop.as_str()), ("bank", ADMIN)] {
        let created = call(address, token, "POST", "/v1/tasks", &submit(namespace)).await;
        assert_eq!(created.status, 201, "{created:?}");
        tasks.push(created.json()["task_uuid"].as_str().expect("a task").to_owned());
    }
    for (task, status) in [(&tasks[0], 200), (&tasks[1], 403)] {
        for (method, path) in [("GET", ""), ("GET", "/summary"), ("GET", "/transitions"), ("DELETE", "")] {
            let answer = call(address, &shop, method, &format!("/v1/tasks/{task}{path}"), &Value::Null).await;
            assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        }
    }
    let claim = |namespaces: Value| json!({"worker": "w", "namespaces": namespaces, "wait_ms": 0});
    let refused = call(address, &shop, "POST", "/v1/workers/claim", &claim(json!(["shop", "bank"]))).await;
    assert_refused(&refused, 403, "this needs the role worker for the namespace \"bank\"");
    let claimed = call(address, ADMIN, "POST", "/v1/workers/claim", &claim(json!(["bank"]))).await;
    let complete = json!({"steps": [{"token": claimed.json()["steps"][0]["token"], "result": null}]});
    let refused = call(address, &shop, "POST", "/v1/workers/complete", &complete).await;
    assert_refused(&refused, 403, "the namespace \"bank\"");
    let listed = call(address, &shop, "GET", "/v1/namespaces", &Value::Null).await.json();
    let names: Vec<&str> =
        listed["namespaces"].as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["shop"]);
}

/// A revoked token is rejected on another server, too, and a request that waits there ends.
/// The pop waits on the second server when the token is revoked on the first; its answer is the event.
#[tokio::test]
async fn a_revoked_token_is_rejected_on_every_server() {
    let db = TestDb::new().await;
    let (_one, first) = secured(&db).await;
    let (_two, second) = secured(&db).await;
    let (text, id) = token(first, "worker", json!([{"role": "worker"}]), true).await;
    let waiting = tokio::spawn({
        let text = text.clone();
        async move { call(second, &text, "GET", "/api/v1/pop/queue/a?wait=true&timeout=60000", &Value::Null).await }
    });
    // The token is in the memory of the second server.
    assert_eq!(call(second, &text, "GET", "/v1/me", &Value::Null).await.status, 200);
    let revoked = call(first, ADMIN, "DELETE", &format!("/v1/tokens/{id}"), &Value::Null).await;
    assert_eq!(revoked.status, 204, "{revoked:?}");
    let ended = timeout(PATIENCE, waiting).await.expect("the wait ends").expect("no panic");
    assert_eq!(ended.status, 401, "{ended:?}");
    assert_refused(&call(second, &text, "GET", "/v1/me", &Value::Null).await, 401, "not valid");
    assert_refused(&call(first, &text, "GET", "/v1/me", &Value::Null).await, 401, "not valid");
}

/// A change leaves a row in the audit exactly if it commits, with its client and the id of its request; the work of
/// producers and workers, and changes that fail or change nothing, leave none.
#[tokio::test]
async fn changes_are_audited_exactly_if_they_commit() {
    let db = TestDb::new().await;
    let (_server, address) = secured(&db).await;
    let (ops, id) = token(address, "ops", json!([{"role": "admin"}]), false).await;
    let push = json!({"items": [{"queue": "a", "payload": {"card": 4711}}]});
    let limit = |namespace: &str| json!({"namespace": namespace, "max_in_progress": 3});
    let missing = "/v1/tasks/00000000-0000-4000-8000-000000000000";
    for (method, path, body, status) in [
        ("POST", "/api/v1/push", push, 201),
        ("POST", "/api/v1/configure", json!({"queue": "a", "options": {"retryLimit": 2}}), 200),
        ("DELETE", "/api/v1/resources/queues/missing", Value::Null, 200),
        ("DELETE", "/api/v1/resources/queues/a", Value::Null, 200),
        ("PUT", "/v1/limits", limit("missing"), 400),
        ("PUT", "/v1/namespaces/shop", json!({"description": "a shop"}), 200),
        ("PUT", "/v1/limits", limit("shop"), 200),
        ("DELETE", missing, Value::Null, 404),
        ("DELETE", "/v1/schedules/shop/missing", Value::Null, 404),
    ] {
        let answer = call(address, &ops, method, path, &body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    assert_eq!(call(address, ADMIN, "DELETE", &format!("/v1/tokens/{id}"), &Value::Null).await.status, 204);
    let page = call(address, ADMIN, "GET", "/v1/audit", &Value::Null).await;
    assert!(!page.body.contains("4711") && !page.body.contains("rvl_"), "{page:?}");
    let page = page.json();
    let rows = page["audit"].as_array().expect("a list").iter().rev();
    let said = |row: &Value| {
        ["actor", "credentials", "action", "target"].map(|key| row[key].as_str().unwrap_or("?").to_owned())
    };
    let found: Vec<String> = rows.map(|row| said(row).join(" ")).collect();
    assert_eq!(
        found,
        [
            "admin admin token token.create ops",
            "ops token queue.configure a",
            "ops token queue.delete a",
            "ops token namespace.put shop",
            "ops token limit.set shop",
            "admin admin token token.revoke ops",
        ]
    );
    assert!(page["audit"].as_array().expect("a list").iter().all(|row| row["request_id"] != ""), "{page}");
    let one = call(address, ADMIN, "GET", "/v1/audit?action=queue.delete&limit=1", &Value::Null).await.json();
    assert_eq!((one["audit"][0]["target"].as_str(), one["audit"].as_array().map(Vec::len)), (Some("a"), Some(1)));
}

/// A client without the right to see payloads gets null in their place; everything else is the same.
#[tokio::test]
async fn payloads_are_a_right_of_their_own() {
    let db = TestDb::new().await;
    let (_server, address) = secured(&db).await;
    let push = json!({"items": [{"queue": "a", "transactionId": "t", "payload": {"card": 4711}}]});
    assert_eq!(call(address, ADMIN, "POST", "/api/v1/push", &push).await.status, 201);
    for payloads in [true, false] {
        let name = format!("viewer {payloads}");
        let (text, _) = token(address, &name, json!([{"role": "viewer"}, {"role": "worker"}]), payloads).await;
        for path in ["/api/v1/messages?queue=a", "/v1/queues/a/messages", "/v1/queues/a/peek"] {
            let seen = call(address, &text, "GET", path, &Value::Null).await;
            assert_eq!(seen.status, 200, "{path}: {seen:?}");
            assert!(payloads || !seen.body.contains("4711"), "{path}: {seen:?}");
            assert_eq!(seen.headers.contains("reveille-payloads: hidden"), !payloads, "{path}: {seen:?}");
            assert!(seen.body.contains("\"t\""), "{path}: {seen:?}");
        }
        let group = format!("/api/v1/pop/queue/a?consumerGroup=g{payloads}");
        let popped = call(address, &text, "GET", &group, &Value::Null).await;
        assert!(popped.body.contains("4711"), "a worker sees the work that it claims: {popped:?}");
    }
}
