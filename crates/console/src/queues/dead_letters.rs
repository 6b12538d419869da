//! The dead letters of a queue, and what can be done with all that the filter matches.

use axum::http::Method;
use maud::{Markup, html};

use super::group_name;
use super::messages::short;
use crate::parts::value::visible;
use crate::parts::{Filter, Table, empty, when};
use crate::{Action, Failure, Json, Url, Visit};

/// Dead letters of a page.
const PAGE: u32 = 50;
/// The parameters that filter them, in the page's address as in the API.
const FILTER: [&str; 5] = ["partition", "group", "error", "from", "to"];
/// The same as options of the command.
const OPTION: [&str; 5] = ["--partition", "--group", "--error", "--from", "--to"];

pub(super) async fn list(visit: &Visit, queue: &str) -> Result<Markup, Failure> {
    let mut url = Url::api(["v1", "dead_letters"]).with("queue", queue).with("limit", PAGE);
    for name in FILTER.iter().chain(&["after"]) {
        url = url.with_some(name, visit.parameter(name));
    }
    let found: Json = visit.get(&url).await?;
    let letters = found["dead_letters"].items();
    let nothing = empty(
        "No dead letters",
        "A message that a consumer group has failed to process too often appears here, with the error. It can be \
         replayed, edited or deleted.",
        "",
    );
    let heads = ["Transaction", "Error", "Payload", "Group", "Partition", "Retries#", "Failed"];
    let table = Table::new("Dead letters", &heads).rows(letters, |letter| row(visit, queue, letter)).or(nothing).pages(
        visit,
        "after",
        &found["next"],
    );
    let filter = Filter::of(visit)
        .text("error", "Error contains")
        .text("group", "Group")
        .text("partition", "Partition")
        .text("from", "Failed from")
        .text("to", "Failed before");
    // What fails later is not touched: the newest one that the visitor sees is the last.
    let newest = letters.first().filter(|_| visit.parameter("after").is_none()).map(|letter| &letter["id"]);
    Ok(html! {
        (filter)
        section data-live="dead-letters" {
            @if !visit.is_read_only() && let Some(newest) = newest {
                div.actions {
                    (bulk(visit, queue, newest, "replay"))
                    (bulk(visit, queue, newest, "purge"))
                }
            }
            (table)
        }
    })
}

fn row(visit: &Visit, queue: &str, letter: &Json) -> Vec<Markup> {
    let page = Url::link(["queues", queue, "dead-letters", &letter["id"].shown()]);
    vec![
        html! { a href=(page) { (visible(letter["transaction_id"].text())) } },
        html! { (visible(&short(letter["error"].text()))) },
        html! {
            @if let Some(why) = letter["unreadable"].as_text() { span.quiet { (visible(why)) } }
            @else { code { (visible(&short(&letter["payload"].to_string()))) } }
        },
        group_name(letter["group"].text()),
        html! { (visible(letter["partition"].text())) },
        html! { (letter["retries"].shown()) },
        when(&letter["failed_at"], visit.now),
    ]
}

/// An action on everything that the filter of the page matches.
fn bulk(visit: &Visit, queue: &str, newest: &Json, verb: &str) -> Action {
    let is_replay = verb == "replay";
    let is_filtered = FILTER.iter().any(|name| visit.parameter(name).is_some());
    let which = if is_filtered { "the dead letters that the filter matches" } else { "all dead letters of this queue" };
    let label = match (is_replay, is_filtered) {
        (true, false) => "Replay all",
        (true, true) => "Replay these",
        (false, false) => "Purge all",
        (false, true) => "Purge these",
    };
    let about = match is_replay {
        true => format!(
            "Pushes {which} to their partitions again, oldest first. Each is a new message, for every consumer group."
        ),
        false => format!("Deletes {which}. This cannot be undone."),
    };
    let route = Url::api(["v1", "dead_letters", verb]);
    let mut action = Action::new(label, Method::POST, route.clone()).about(&about).body("queue", queue);
    let mut command = vec!["dlq", verb, "--queue", queue];
    for (at, name) in FILTER.into_iter().enumerate() {
        if let Some(value) = visit.parameter(name) {
            action = action.body(name, value);
            command.extend([OPTION[at], value]);
        }
    }
    action =
        action.body("up_to", newest.clone()).preview(Method::POST, route, [("dry_run", Json::Bool(true))]).repeats();
    action = action.command(command);
    if is_replay { action } else { action.confirm_by_typing(queue) }
}
