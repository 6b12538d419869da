//! Routes of the OpenAPI document, tested by schemathesis: it generates valid and invalid requests from `/openapi.json`
//! and checks every response against the document.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::http::get;
use crate::python::python;

/// How long it may take: three times what it takes on a busy machine. `.config/nextest.toml` allows that time.
const DEADLINE: Duration = Duration::from_secs(600);

/// Tests the routes of a server whose paths match, with the configuration in the folder `schema` of a product's tests.
/// Every route must have been answered with success at least once, because otherwise its response was never checked.
pub(crate) async fn try_out(address: SocketAddr, product: &str, paths: &str, environment: &[(&str, &str)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(product).join("schema");
    let mut schemathesis = python("schemathesis", "python");
    schemathesis.args(["-m", "schemathesis.cli", "--config-file"]).arg(folder.join("schemathesis.toml"));
    schemathesis.args(["run", &format!("http://{address}/openapi.json"), "--include-path-regex", paths]);
    schemathesis.env("PYTHONPATH", &folder).env("SCHEMATHESIS_HOOKS", "hooks").envs(environment.iter().copied());
    // It creates folders where it runs.
    schemathesis.current_dir(env!("CARGO_TARGET_TMPDIR"));
    let ended = timeout(DEADLINE, schemathesis.output()).await.expect("it ends in time").expect("it runs");
    let output = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{}\n{output}\n{}", ended.status, String::from_utf8_lossy(&ended.stderr));

    let document = get(address, "/openapi.json").await.json();
    let answered = get(address, "/metrics").await.body;
    let of = |path: &str| match path {
        path if PROVEN_ELSEWHERE.iter().any(|proven| path.starts_with(proven)) => "",
        path if path.starts_with("/v1/durable/") => DURABLE,
        path if path.starts_with("/v1/") => FLOW,
        _ => OTHERS,
    };
    let tried = routes(&document).filter(|(_, path)| of(path) == paths);
    let never: Vec<String> = tried.filter(|route| !has_succeeded(&answered, route)).map(show).collect();
    assert!(never.is_empty(), "never answered with success: {never:?}\n{output}");
}

/// Routes whose success needs data that these tests do not make, or that end only with their client. Their own tests
/// have it.
const PROVEN_ELSEWHERE: &[&str] = &[
    "/v1/audit",
    "/v1/changes",
    "/v1/dead_letters",
    "/v1/groups",
    "/v1/me",
    "/v1/messages",
    "/v1/overview",
    "/v1/queues",
    "/v1/tasks/{task_uuid}/fork",
    "/v1/tokens",
    "/v1/wake",
];
/// The paths of flow, of durable, and all others.
pub(crate) const FLOW: &str = "^/v1/(?!durable/|changes$)";
pub(crate) const DURABLE: &str = "^/v1/durable/";
pub(crate) const OTHERS: &str = "^(?!/v1/)";

/// The methods and paths of a document.
fn routes(document: &Value) -> impl Iterator<Item = (&str, &str)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    paths.flat_map(|(path, methods)| {
        methods.as_object().expect("methods").keys().map(move |method| (method.as_str(), path.as_str()))
    })
}

fn show((method, path): (&str, &str)) -> String {
    format!("{method} {path}")
}

/// Whether the server's metrics count an answer of success.
fn has_succeeded(metrics: &str, (method, path): &(&str, &str)) -> bool {
    let counted =
        format!(r#"reveille_http_requests_total{{method="{}",route="{path}",status="2"#, method.to_uppercase());
    metrics.lines().any(|line| line.starts_with(&counted))
}
