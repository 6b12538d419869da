//! `reveille task list`.

use serde::Deserialize;

use super::state;
use crate::{
    client::{self, Answer, Route},
    commands::remote::Remote,
    config::remote::task::List,
    error::Error,
    terminal::{Cell, Column, Style, Table, ago},
};

#[derive(Deserialize)]
struct Page {
    tasks: Vec<Task>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Task {
    task_uuid: String,
    namespace: String,
    name: String,
    version: String,
    status: String,
    created_at: String,
    completed_at: Option<String>,
    total_steps: u64,
    completed_steps: u64,
    failed_steps: u64,
    in_progress_steps: u64,
}

pub(super) async fn run(remote: &Remote, args: List) -> Result<(), Error> {
    let filtered = Route::new("/v1/tasks")
        .maybe("namespace", args.namespace.as_ref())
        .maybe("name", args.name.as_ref())
        .maybe("version", args.template_version.as_ref())
        .maybe("status", args.state.as_ref())
        .maybe("tag", args.tag.as_ref())
        .maybe("correlation_id", args.correlation_id.as_ref())
        .maybe("initiator", args.initiator.as_ref())
        .maybe("created_after", args.from.as_ref())
        .maybe("created_before", args.to.as_ref());
    let (mut after, mut tasks) = (args.after, Vec::new());
    loop {
        let limit = args.limit as usize - tasks.len();
        let answer = remote.client.get(&filtered.clone().query("limit", limit).maybe("after", after.as_ref())).await?;
        if remote.screen.is_json() {
            return remote.screen.json(answer.text());
        }
        let page: Page = answer.json()?;
        tasks.extend(page.tasks);
        after = page.next;
        // A page may be short, or empty, although there are more.
        if after.is_none() || tasks.len() >= args.limit as usize {
            break;
        }
    }
    remote.screen.table(&table(&tasks), "no tasks")?;
    remote.next(after.as_deref());
    Ok(())
}

/// The table of an answer.
pub(in crate::commands) fn table_of(answer: &Answer) -> Result<Table, client::Error> {
    Ok(table(&answer.json::<Page>()?.tasks))
}

fn table(tasks: &[Task]) -> Table {
    let mut table = Table::new([
        Column::id("task"),
        Column::text("template"),
        Column::text("version"),
        Column::text("state"),
        Column::text("steps"),
        Column::number("running"),
        Column::number("failed"),
        Column::text("submitted"),
        Column::text("ended"),
    ]);
    for task in tasks {
        let failed = if task.failed_steps > 0 { Style::Bad } else { Style::Dim };
        table.row([
            task.task_uuid.as_str().into(),
            format!("{}/{}", task.namespace, task.name).into(),
            task.version.as_str().into(),
            state::cell(&task.status),
            format!("{} of {}", task.completed_steps, task.total_steps).into(),
            Cell::count(task.in_progress_steps),
            Cell::styled(task.failed_steps, failed),
            ago(&task.created_at).into(),
            Cell::maybe(task.completed_at.as_deref().map(ago)),
        ]);
    }
    table
}
