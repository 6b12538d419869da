//! `POST /v1/templates` and `GET /v1/templates/{namespace}/{name}/{version}`.

use serde_json::json;

use super::fixture::{JSON, Server, claim, wanted};
use crate::http::assert_refused;

const YAML: &str = "content-type: application/yaml";
const TEMPLATE: &str = "name: order\nnamespace_name: shop\nversion: 2.0.0\nsteps:\n  - name: pay\n  - name: ship\n    dependencies: [pay]\n";

/// A template is accepted as YAML and JSON, registered once, and returned as checked. The same template as YAML and as
/// JSON; then another text with the same version; then without a content type, or as plain text, as a web page could
/// send it.
#[tokio::test]
async fn a_template_is_registered_as_yaml_and_json() {
    let server = Server::start().await;
    assert_eq!(server.get("templates/shop/order/2.0.0").await.status, 404);
    let first = server.send("POST", "templates", &[YAML], TEMPLATE.as_bytes()).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(first.json(), json!({"namespace": "shop", "name": "order", "version": "2.0.0", "steps": 2}));
    let same = json!({"name": "order", "namespace_name": "shop", "version": "2.0.0",
                      "steps": [{"name": "pay"}, {"name": "ship", "dependencies": ["pay"]}]});
    let again = server.send("POST", "templates", &[JSON], same.to_string().as_bytes()).await;
    assert_eq!((again.status, again.json()), (200, first.json()), "{again:?}");
    for headers in [&[][..], &["content-type: text/plain"]] {
        let unsaid = server.send("POST", "templates", headers, TEMPLATE.as_bytes()).await;
        assert_refused(&unsaid, 415, "application/yaml");
    }
    let found = server.get("templates/shop/order/2.0.0").await;
    assert_eq!(found.status, 200);
    assert_eq!(found.json()["steps"][1]["dependencies"], json!(["pay"]));
    assert_eq!(found.json()["steps"][0]["retry"]["max_attempts"], 3, "what was not given is there as it counts");
    let other = TEMPLATE.replace("pay", "bill");
    let taken = server.send("POST", "templates", &[YAML], other.as_bytes()).await;
    assert_refused(&taken, 409, "already registered with a different text");
    assert_refused(
        &server.send("POST", "templates", &["content-type: image/png"], b"x").await,
        415,
        "application/yaml",
    );
}

/// All faults of a template are returned with their lines, and nothing is registered; validation alone registers
/// nothing, either.
#[tokio::test]
async fn faults_have_lines_and_validation_registers_nothing() {
    let server = Server::start().await;
    let wrong = "name: order\nnamespace_name: shop\nversion: 2.0.0\nsteps:\n  - name: pay\n    dependencies: [ship]\n  - name: ship\n    dependencies: [pay]\n    retry: {max_attempts: 0}\n";
    for path in ["templates", "templates?validate=true"] {
        let refused = server.send("POST", path, &[YAML], wrong.as_bytes()).await;
        assert_refused(&refused, 400, "line 9");
        let faults = refused.json()["faults"].as_array().expect("faults").clone();
        assert!(faults.len() >= 2, "{refused:?}");
        assert!(faults.iter().all(|fault| fault["message"].is_string() && fault["line"].is_u64()), "{refused:?}");
    }
    let good = server.send("POST", "templates?validate=true", &[YAML], TEMPLATE.as_bytes()).await;
    assert_eq!((good.status, &good.json()["steps"]), (200, &json!(2)));
    assert_eq!(server.get("templates/shop/order/2.0.0").await.status, 404);
    assert_refused(&server.send("POST", "templates", &[YAML], b"").await, 400, "");
    assert_refused(&server.send("POST", "templates", &[YAML], b"`name`: \xff").await, 400, "UTF-8");
    assert_refused(&server.get("templates/a%00b/c/d").await, 404, "no template");
}

/// The overrides of an environment apply at a server of that environment.
#[tokio::test]
async fn the_environment_of_the_server_applies() {
    let server = Server::with(&["--flow-environment=test"]).await;
    let text = "name: t\nnamespace_name: tests\nsteps: [{name: a}]\n\
                environments: {test: {steps: [{name: a, handler: {callable: stub}}]}}\n";
    assert_eq!(server.send("POST", "templates", &[YAML], text.as_bytes()).await.status, 201);
    server.post("tasks", &wanted("t", json!({}))).await;
    let claimed = server.post("workers/claim", &claim(1, 0)).await.json();
    assert_eq!(claimed["steps"][0]["callable"], "stub");
}
