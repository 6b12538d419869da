//! `GET /console/queues/{queue}`: one queue, in tabs.

use axum::extract::Path;
use maud::{Markup, html};

use super::{actions, alarming, dead_letters, groups, messages, number, options, partitions, rate};
use crate::parts::value::visible;
use crate::parts::{Tone, badge, facts, tabs, when};
use crate::{Failure, Json, Page, Section, Url, Visit};

const TABS: [(&str, &str); 6] = [
    ("messages", "Messages"),
    ("next", "Up next"),
    ("partitions", "Partitions"),
    ("groups", "Groups"),
    ("dead-letters", "Dead letters"),
    ("options", "Options"),
];

pub(super) async fn queue(visit: Visit, Path(name): Path<String>) -> Result<Page, Failure> {
    let queue: Json = visit.get(&Url::api(["v1", "queues", &name])).await?;
    let (chosen, navigation) = tabs(&visit, &TABS);
    let content = match chosen {
        "next" => messages::next(&visit, &name, &queue).await?,
        "partitions" => partitions::list(&visit, &name).await?,
        "groups" => groups::list(&visit, &name, &queue),
        "dead-letters" => dead_letters::list(&visit, &name).await?,
        "options" => options::list(&queue),
        _ => messages::list(&visit, &name).await?,
    };
    let content = html! {
        section data-live="facts" { (summary(&visit, &queue)) }
        (navigation)
        (content)
    };
    let mut page = visit.page(Section::Queues, &visible(&name), content).within("Queues", Url::link(["queues"]));
    page = page.live_on("queue").action(actions::push(&name));
    for action in [actions::pause(&name, &queue), actions::configure(&name, &queue)] {
        page = page.action(action);
    }
    Ok(page.action(actions::clear(&name, &queue)).action(actions::delete(&name, &queue)))
}

fn summary(visit: &Visit, queue: &Json) -> Markup {
    let paused = &queue["paused_at"];
    facts([
        (
            "State",
            html! {
                @if paused.is_null() { (badge(Tone::Good, "delivering")) }
                @else { (badge(Tone::Warn, "paused")) " " (when(paused, visit.now)) }
            },
        ),
        (
            "Depth",
            html! {
                (number(&queue["depth"]))
                @if queue["leased"].integer() > Some(0) { span.quiet { ", " (queue["leased"].shown()) " leased" } }
            },
        ),
        ("Oldest that waits", when(&queue["oldest_at"], visit.now)),
        ("Pushed", rate(&queue["pushed_per_second"])),
        ("Delivered", rate(&queue["delivered_per_second"])),
        ("Acked", rate(&queue["acked_per_second"])),
        (
            "Stored",
            html! { (number(&queue["messages"])) span.quiet { " in " (queue["partitions"].shown()) " partitions" } },
        ),
        ("Dead letters", alarming(&queue["dead_letters"])),
        ("Namespace, task", html! { (visible(queue["namespace"].text())) ", " (visible(queue["task"].text())) }),
        ("Created", when(&queue["created_at"], visit.now)),
    ])
}
