//! Every route of durable, tested by schemathesis.

use serde_json::json;

use super::fixture::Server;
use crate::schemathesis::{DURABLE, try_out};

/// The server conforms to its OpenAPI document for generated requests: it accepts what the document allows and has no
/// server errors. A fixed seed, with an instance that ended and others that no runtime begins. The configuration is in
/// `schema/`.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_conforms_to_its_openapi_document() {
    let server = Server::start().await;
    let runtime = server.runtime().await;
    server.begin("loop", "Count", "0").await;
    server.ended("loop").await;
    runtime.shutdown(None).await;
    for instance in ["pending", "spare"] {
        let body = json!({"instance": instance, "name": "Unknown"});
        assert_eq!(server.post("instances", &body).await.status, 201);
    }
    try_out(server.address, "orchestrations", DURABLE, &[]).await;
}
