//! `reveille durable delete` and `prune`.

use serde::{Deserialize, Serialize};

use super::{instance, status};
use crate::{
    client::{Answer, Route},
    commands::remote::Remote,
    config::{DeleteInstance, PruneInstances},
    error::Error,
    terminal::{Column, Interrupt, Table, ago, printable},
};

/// Instances of a step: a transaction of some milliseconds.
const STEP: u64 = 100;

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
struct Size {
    instances: u64,
    executions: u64,
    events: u64,
    messages: u64,
}

#[derive(Deserialize)]
struct Deleted {
    running: u64,
    #[serde(flatten)]
    size: Size,
}

#[derive(Clone, Serialize)]
struct Prune<'a> {
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_before: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_last: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    limit: u64,
    dry_run: bool,
}

#[derive(Deserialize)]
struct Pruned {
    #[serde(flatten)]
    size: Size,
    sample: Vec<Sample>,
    next: Option<String>,
    remaining: Option<u64>,
    more: bool,
}

#[derive(Deserialize)]
struct Sample {
    instance: String,
    name: String,
    status: String,
    ended_at: Option<String>,
}

impl Size {
    fn add(&mut self, other: Size) {
        self.instances += other.instances;
        self.executions += other.executions;
        self.events += other.events;
        self.messages += other.messages;
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Size { instances, executions, events, messages } = self;
        write!(f, "{instances} instances, {executions} executions, {events} events, {messages} messages")
    }
}

pub(super) async fn delete(remote: &Remote, args: DeleteInstance) -> Result<(), Error> {
    let id = printable(&args.instance);
    if !args.confirmation.yes {
        let planned = remote.client.delete(&instance(&args.instance).query("dry_run", true)).await?;
        let Deleted { running, size } = planned.json()?;
        let running = if running > 0 { format!("; {running} of them have not ended") } else { String::new() };
        remote.screen.confirm(format_args!("{id} will be deleted: {size}{running}"), false).await?;
    }
    let route = instance(&args.instance);
    let route = if args.force { route.query("force", true) } else { route };
    let answer = remote.client.delete(&route).await?;
    if remote.screen.is_json() {
        return remote.screen.json(answer.text());
    }
    let deleted: Deleted = answer.json()?;
    remote.screen.line(format_args!("deleted {id}: {}", deleted.size))
}

pub(super) async fn prune(remote: &Remote, args: PruneInstances) -> Result<(), Error> {
    let first = Prune {
        what: if args.executions { "executions" } else { "instances" },
        ended_before: args.ended_before.as_deref(),
        status: args.status.as_deref(),
        name: args.name.as_deref(),
        keep_last: args.keep_last,
        after: None,
        limit: STEP,
        dry_run: true,
    };
    let answer = step(remote, &first).await?;
    if args.dry_run && remote.screen.is_json() {
        return remote.screen.json(answer.text());
    }
    let planned: Pruned = answer.json()?;
    if planned.sample.is_empty() && planned.next.is_none() {
        remote.screen.note("nothing to delete");
        return Ok(());
    }
    if args.dry_run || !args.confirmation.yes {
        show(remote, &planned)?;
    }
    if args.dry_run {
        return Ok(());
    }
    remote.screen.confirm(touches(&planned, args.executions), args.confirmation.yes).await?;
    let total = planned.remaining.filter(|_| !planned.more && !args.executions);
    let total = total.map(|remaining| remaining + planned.size.instances.min(STEP));
    run(remote, Prune { dry_run: false, ..first }, total).await
}

/// Deletes step by step.
async fn run(remote: &Remote, mut prune: Prune<'_>, total: Option<u64>) -> Result<(), Error> {
    let mut interrupt = Interrupt::listen()?;
    let mut progress = remote.screen.progress("deleting", total);
    let mut done = Size::default();
    loop {
        let Some(answer) = interrupt.or(step(remote, &prune)).await else {
            progress.clear();
            let resume = format!("deleted {done}; run the same command again to continue");
            return Err(Error::Interrupted { resume });
        };
        let pruned: Pruned = answer?.json()?;
        done.add(pruned.size);
        progress.set(done.instances);
        prune.after = pruned.next;
        if prune.after.is_none() {
            break;
        }
    }
    progress.clear();
    if remote.screen.is_json() {
        return remote.screen.document(&done);
    }
    match prune.what {
        "executions" => {
            let Size { instances, executions, events, .. } = done;
            remote
                .screen
                .line(format_args!("deleted {executions} executions of {instances} instances, {events} events"))
        }
        _ => remote.screen.line(format_args!("deleted {done}")),
    }
}

async fn step(remote: &Remote, prune: &Prune<'_>) -> Result<Answer, Error> {
    Ok(remote.client.post(&Route::new("/v1/durable/prune"), prune).await?)
}

fn show(remote: &Remote, planned: &Pruned) -> Result<(), Error> {
    let mut table = Table::new([
        Column::id("instance"),
        Column::text("orchestration"),
        Column::text("status"),
        Column::text("ended"),
    ]);
    for Sample { instance, name, status: state, ended_at } in &planned.sample {
        let ended = ended_at.as_deref().map(ago).unwrap_or_default();
        table.row([instance.as_str().into(), name.as_str().into(), status(state), ended.into()]);
    }
    remote.screen.table(&table, "")?;
    let more = if planned.more { "more than " } else { "" };
    let remaining = planned.remaining.unwrap_or_default();
    remote.screen.note(format_args!("first step: {}; after it, {more}{remaining} instances match", planned.size));
    Ok(())
}

fn touches(planned: &Pruned, executions: bool) -> String {
    let more = if planned.more { " and more" } else { "" };
    let remaining = planned.remaining.unwrap_or_default();
    match executions {
        true => format!("old executions will be deleted: {} in the first step", planned.size.executions),
        false => {
            let roots = remaining + planned.size.instances;
            format!("{roots}{more} ended instances will be deleted with their sub-orchestrations")
        }
    }
}
