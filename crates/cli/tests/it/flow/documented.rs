//! The worker routes in docs/http-api.md, tried against a real server.

use std::collections::HashMap;

use serde_json::Value;

use super::fixture::Server;

const DOCUMENT: &str = include_str!("../../../../../docs/http-api.md");

/// The template that the document uses.
const TEMPLATE: &str = "name: order\nnamespace_name: shop\nsteps:\n  \
    - {name: charge, handler: {callable: payments.charge, initialization: {provider: acme}}}\n  \
    - {name: reserve, dependencies: [charge]}\n  - {name: pack}\n";

/// The code blocks of the document with their languages.
fn blocks() -> Vec<(&'static str, String)> {
    let mut blocks = Vec::new();
    let mut lines = DOCUMENT.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            blocks.push((language, code.join("\n")));
        }
    }
    blocks
}

/// Replaces placeholders such as `<token of charge>` with the values from earlier responses.
fn filled(text: &str, known: &HashMap<String, String>) -> String {
    known.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// Whether a response is the documented one. A placeholder `<…>` matches any value at its first use.
fn same(documented: &Value, answer: &Value, known: &mut HashMap<String, String>) -> bool {
    match (documented, answer) {
        (Value::String(name), Value::String(value)) if name.starts_with('<') => {
            known.entry(name.clone()).or_insert_with(|| value.clone()) == value
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other, known))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| same(one, other, known)))
        }
        (one, other) => one == other,
    }
}

/// Every request in the document gets the documented response.
/// The requests are sent in order, and placeholders take their values from earlier responses.
#[tokio::test]
async fn the_documented_worker_routes_answer_as_documented() {
    let server = Server::start().await;
    let answer = server.send("POST", "templates", &["content-type: application/yaml"], TEMPLATE.as_bytes()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let blocks = blocks();
    let mut known = HashMap::new();
    let mut routes = Vec::new();
    for pair in blocks.windows(2) {
        let [("http", request), ("json", documented)] = pair else { continue };
        let (line, body) = request.split_once('\n').expect("a request line and a body");
        let path = line.strip_prefix("POST /v1/").unwrap_or_else(|| panic!("{line}"));
        let body: Value = serde_json::from_str(&filled(body, &known)).unwrap_or_else(|error| panic!("{body}: {error}"));
        let answer = server.post(path, &body).await;
        assert!(matches!(answer.status, 200 | 201), "{line}: {answer:?}");
        let documented: Value = serde_json::from_str(documented).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(same(&documented, &answer.json(), &mut known), "{line}: documented {documented}, got {}", answer.body);
        routes.push(path.to_owned());
    }
    for route in ["claim", "heartbeat", "checkpoint", "complete", "fail", "release"] {
        assert!(routes.contains(&format!("workers/{route}")), "{route} has no example: {routes:?}");
    }
}
