//! `reveille durable list`.

use serde::Deserialize;

use super::status;
use crate::{
    client::Route,
    commands::remote::Remote,
    config::ListInstances,
    error::Error,
    terminal::{Cell, Column, Table, ago},
};

/// Pages that are read although they are empty: each scans 20 000 instances.
const PAGES_MAX: usize = 500;

#[derive(Deserialize)]
struct Page {
    instances: Vec<Summary>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Summary {
    instance: String,
    name: String,
    version: Option<String>,
    status: String,
    execution: u64,
    created_at: String,
    updated_at: String,
    custom_status: Option<String>,
}

pub(super) async fn run(remote: &Remote, args: ListInstances) -> Result<(), Error> {
    let mut after = args.after.clone();
    let mut table = Table::new([
        Column::id("instance"),
        Column::text("orchestration"),
        Column::text("version"),
        Column::text("status"),
        Column::number("execution"),
        Column::text("created"),
        Column::text("changed"),
        Column::text("custom status"),
    ]);
    let mut shown = 0;
    for _ in 0..PAGES_MAX {
        let route = Route::new("/v1/durable/instances")
            .maybe("status", args.status.as_deref())
            .maybe("name", args.name.as_deref())
            .maybe("version", args.of_version.as_deref())
            .maybe("prefix", args.prefix.as_deref())
            .maybe("created_after", args.since.as_deref())
            .maybe("created_before", args.until.as_deref())
            .maybe("after", after.as_deref())
            .query("limit", args.limit - shown);
        let answer = remote.client.get(&route).await?;
        let page: Page = answer.json()?;
        let is_last = page.next.is_none();
        // A page may be empty although there are more.
        if remote.screen.is_json() && (is_last || !page.instances.is_empty()) {
            return remote.screen.json(answer.text());
        }
        for it in &page.instances {
            table.row([
                it.instance.as_str().into(),
                it.name.as_str().into(),
                Cell::maybe(it.version.as_deref()),
                status(&it.status),
                Cell::count(it.execution),
                ago(&it.created_at).into(),
                ago(&it.updated_at).into(),
                it.custom_status.as_deref().unwrap_or_default().into(),
            ]);
        }
        shown += page.instances.len() as u32;
        after = page.next;
        if is_last || shown >= args.limit {
            break;
        }
    }
    remote.screen.table(&table, "no instances")?;
    if let Some(after) = after {
        remote.screen.note(format_args!("there are more: --after '{after}' shows the next"));
    }
    Ok(())
}
