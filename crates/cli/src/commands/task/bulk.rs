//! One operation on the tasks of a filter: preview, confirmation, progress.
//!
//! A request changes at most a thousand tasks, each in a transaction of its own. Changed tasks do not match any more, so
//! a command that was interrupted is continued by running it again.

use serde::{Deserialize, Serialize};

use crate::{
    client::Route,
    commands::remote::Remote,
    config::remote::task::{Change, Filter},
    error::Error,
    terminal::{Interrupt, count_of, printable},
};

/// An operation on many tasks.
#[derive(Clone, Copy)]
pub(super) struct Bulk {
    kind: &'static str,
    /// As in "is …": what happens to a task.
    done: &'static str,
    doing: &'static str,
}

pub(super) const RESUME: Bulk = Bulk { kind: "resume_task", done: "retried", doing: "retrying" };
pub(super) const RESOLVE: Bulk = Bulk { kind: "resolve_task", done: "marked as resolved", doing: "resolving" };
pub(super) const CANCEL: Bulk = Bulk { kind: "cancel_task", done: "cancelled", doing: "cancelling" };
pub(super) const DELETE: Bulk = Bulk { kind: "delete_task", done: "deleted", doing: "deleting" };

#[derive(Serialize)]
struct Request<'a> {
    filter: Fields<'a>,
    operation: Kind,
    preview: bool,
    by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Kind {
    r#type: &'static str,
}

#[derive(Serialize)]
struct Fields<'a> {
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    version: Option<&'a str>,
    state: Option<&'a str>,
    error_contains: Option<&'a str>,
    created_after: Option<&'a str>,
    created_before: Option<&'a str>,
    tasks: Option<Vec<&'a str>>,
}

#[derive(Deserialize)]
struct Report {
    done: u64,
    matched: u64,
    remaining: u64,
    items: Vec<Item>,
    refused: Vec<Refused>,
}

#[derive(Deserialize)]
struct Item {
    task_uuid: String,
}

#[derive(Deserialize)]
struct Refused {
    reason: String,
}

/// Runs an operation on one task, or on those of a filter.
pub(super) async fn run(remote: &Remote, args: &Change, bulk: Bulk) -> Result<(), Error> {
    let Filter { namespace, name, template_version, state, error, from, to } = &args.filter;
    let given = [&args.task, namespace, name, template_version, state, error, from, to];
    if given.iter().all(|given| given.is_none()) {
        let what = "name a task, or a filter such as --namespace, --name or --state".into();
        return Err(Error::Input { what });
    }
    let request = |preview| Request {
        filter: Fields {
            namespace: namespace.as_deref(),
            name: name.as_deref(),
            version: template_version.as_deref(),
            state: state.as_deref(),
            error_contains: error.as_deref(),
            created_after: from.as_deref(),
            created_before: to.as_deref(),
            tasks: args.task.as_deref().map(|task| vec![task]),
        },
        operation: Kind { r#type: bulk.kind },
        preview,
        by: args.operator.name(),
        reason: args.operator.reason.as_deref(),
    };
    let route = Route::new("/v1/tasks/bulk");
    let preview: Report = remote.client.post(&route, &request(true)).await?.json()?;
    let count = preview.matched + preview.remaining;
    if count == 0 {
        return none(remote, args, bulk);
    }
    let sample: Vec<String> = preview.items.iter().take(3).map(|item| item.task_uuid.clone()).collect();
    let touches = format!("{} will be {}, such as {}", count_of(count, "task"), bulk.done, sample.join(", "));
    remote.screen.confirm(touches, args.confirmation.yes).await?;
    apply(remote, &route, &request(false), bulk, count).await
}

/// Nothing matches. A task that was named should have.
fn none(remote: &Remote, args: &Change, bulk: Bulk) -> Result<(), Error> {
    if let Some(task) = &args.task {
        return Err(Error::NothingNamed { what: format!("there is no task {task} that can be {}", bulk.done) });
    }
    remote.screen.note("no tasks match");
    Ok(())
}

async fn apply(remote: &Remote, route: &Route, request: &Request<'_>, bulk: Bulk, count: u64) -> Result<(), Error> {
    let mut interrupt = Interrupt::listen()?;
    let mut progress = remote.screen.progress(bulk.doing, Some(count));
    let mut done = 0;
    let resume = |done| format!("{} {}; run the command again to continue", count_of(done, "task"), bulk.done);
    let last = loop {
        let answer = match interrupt.or(remote.client.post(route, request)).await {
            None => return Err(Error::Interrupted { resume: resume(done) }),
            Some(Err(source)) if done > 0 => return Err(Error::Stopped { resume: resume(done), source }),
            Some(answer) => answer?,
        };
        let report: Report = answer.json()?;
        done += report.done;
        progress.set(done);
        if remote.screen.is_json() {
            remote.screen.json_line(answer.text())?;
        }
        // What is refused would be tried again for ever.
        if report.remaining == 0 || report.done == 0 {
            break report;
        }
    };
    progress.clear();
    if !remote.screen.is_json() {
        remote.screen.line(format_args!("{} {}", count_of(done, "task"), bulk.done))?;
    }
    match last.refused.first() {
        None => Ok(()),
        Some(first) => {
            let refused = count_of(last.refused.len() as u64, "task");
            Err(Error::Incomplete { what: format!("{refused} not {}: {}", bulk.done, printable(&first.reason)) })
        }
    }
}
