//! `GET /console/search`: what the palette finds, for the words that were typed.

use axum::Json as Body;
use serde::Serialize;

use crate::{Json, Url, Visit};

/// How many things of each kind are offered.
const OFFERED: usize = 8;

/// A page to go to.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    title: String,
    kind: &'static str,
    /// Relative to the console.
    href: String,
}

/// Queues by a part of their name, and a task by its id. A kind that the visitor may not see is left out.
pub(crate) async fn search(visit: Visit) -> Body<Vec<Found>> {
    let Some(text) = visit.parameter("q").map(str::trim).filter(|text| !text.is_empty()) else {
        return Body(Vec::new());
    };
    let mut found = Vec::new();
    let queues = Url::api(["api", "v1", "resources", "queues"]).with("search", text).with("limit", OFFERED);
    if let Ok(answer) = visit.get::<Json>(&queues).await {
        for queue in answer["queues"].items().iter().take(OFFERED) {
            let name = queue["name"].text();
            found.push(Found { title: name.to_owned(), kind: "queue", href: Url::link(["queues", name]).to_string() });
        }
    }
    let is_id = text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let task = Url::api(["v1", "tasks", text, "summary"]);
    if is_id && let Ok(answer) = visit.get::<Json>(&task).await {
        let title = format!("{} {text}", answer["name"].text());
        found.push(Found { title, kind: "task", href: Url::link(["tasks", text]).to_string() });
    }
    Body(found)
}
