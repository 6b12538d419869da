//! `GET /console/queues/{queue}/dead-letters/{id}`: one dead letter.

use axum::extract::Path;
use axum::http::Method;
use maud::html;

use super::{group_name, message_link};
use crate::parts::value::visible;
use crate::parts::{facts, value, when};
use crate::{Action, Failure, Field, Json, Page, Section, Url, Visit};

pub(super) async fn dead_letter(visit: Visit, Path((queue, id)): Path<(String, String)>) -> Result<Page, Failure> {
    let letter: Json = visit.get(&Url::api(["v1", "dead_letters", &id])).await?;
    let queue = letter["queue"].as_text().unwrap_or(&queue);
    let (partition, transaction) = (letter["partition"].text(), letter["transaction_id"].text());
    let unreadable = letter["unreadable"].as_text();
    let content = html! {
        section {
            (facts([
                ("Failed", when(&letter["failed_at"], visit.now)),
                ("Consumer group", group_name(letter["group"].text())),
                ("Retries", html! { (letter["retries"].shown()) }),
                ("Partition", html! { a href=(Url::link(["queues", queue]).with("partition", partition)) { (visible(partition)) } }),
                ("Transaction id", html! { a href=(message_link(queue, letter["partition_id"].text(), transaction)) { (visible(transaction)) } }),
                ("Offset", html! { (letter["offset"].shown()) }),
                ("Stored", when(&letter["created_at"], visit.now)),
                ("Producer", html! { (visible(letter["producer"].text())) }),
                ("Trace id", html! { (visible(letter["trace_id"].text())) }),
            ]))
            h2 { "Error" }
            pre tabindex="0" { (visible(letter["error"].text())) }
            h2 { "Payload" }
            @if let Some(why) = unreadable { p.quiet { "It cannot be shown: " (visible(why)) "." } }
            @else { (value(&letter["payload"])) }
        }
    };
    let back = Url::link(["queues", queue]).with("tab", "dead-letters");
    let page = visit
        .page(Section::Queues, &format!("Dead letter {id}"), content)
        .within("Queues", Url::link(["queues"]))
        .within(&visible(queue), Url::link(["queues", queue]))
        .within("Dead letters", back.clone());
    let route = Url::api(["v1", "dead_letters", &id, "replay"]);
    let about = "Pushes it to its partition again. It is a new message, for every consumer group.";
    let replay = Action::new("Replay", Method::POST, route.clone()).about(about);
    let edit = Action::new("Edit and replay", Method::POST, route)
        .about("Pushes it to its partition again, with another payload. The message keeps a trace of the dead letter.")
        .field(Field::json("payload", "Payload").value(&letter["payload"]).required());
    let delete = Action::new("Delete", Method::DELETE, Url::api(["v1", "dead_letters", &id]))
        .about("Deletes the dead letter. This cannot be undone.")
        .then(back.clone());
    let page = page.action(replay.command(["dlq", "replay", &id]).then(back.clone()));
    let page = if unreadable.is_some() { page } else { page.action(edit.then(back)) };
    Ok(page.action(delete))
}
