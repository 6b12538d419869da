//! `reveille worker`: the workers of task graphs.

use std::time::Duration;

use serde::Deserialize;

use super::remote::Remote;
use crate::{
    client::Route,
    config::remote::worker::{Command, List},
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, duration},
};

#[derive(Deserialize)]
struct Workers {
    workers: Vec<Worker>,
    more: bool,
}

#[derive(Deserialize)]
struct Worker {
    worker: String,
    claims: Vec<Claim>,
    steps: Vec<Held>,
    in_progress: u64,
}

#[derive(Deserialize)]
struct Claim {
    namespaces: Vec<String>,
    steps: Option<Vec<String>>,
    except: Vec<String>,
    waiting: u64,
    last_ms: u64,
}

#[derive(Deserialize)]
struct Held {
    namespace: String,
    step: String,
    attempt: u64,
    lease_ends_at: String,
}

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: Command) -> Result<(), Error> {
    match command {
        Command::List(args) => list(remote, args).await,
    }
}

async fn list(remote: &Remote, args: List) -> Result<(), Error> {
    let route = Route::new("/v1/workers").maybe("namespace", args.namespace).maybe("step", args.step);
    let answer = remote.client.get(&route).await?;
    remote.show(&answer, |Workers { workers, more }| {
        remote.screen.table(&table(&workers), "no workers")?;
        if more {
            remote.screen.note("there are more; --namespace and --step choose");
        }
        Ok(())
    })
}

/// A row for each claim and for each held step of a worker.
fn table(workers: &[Worker]) -> Table {
    let mut table = Table::new([
        Column::id("worker"),
        Column::number("running"),
        Column::text("what"),
        Column::text("namespace"),
        Column::text("steps"),
        Column::text("since"),
    ]);
    for worker in workers {
        let mut first = [worker.worker.as_str().into(), Cell::count(worker.in_progress)];
        for claim in &worker.claims {
            let [name, running] = std::mem::take(&mut first);
            let waits = match claim.waiting {
                0 => Cell::styled("asked", Style::Dim),
                1 => Cell::styled("waits", Style::Good),
                several => Cell::styled(format!("waits, {several} times"), Style::Good),
            };
            let since = format!("{} ago", duration(Duration::from_millis(claim.last_ms)));
            table.row([name, running, waits, claim.namespaces.join(", ").into(), claim.names().into(), since.into()]);
        }
        for held in &worker.steps {
            let [name, running] = std::mem::take(&mut first);
            table.row([
                name,
                running,
                Cell::styled("runs", Style::Busy),
                held.namespace.as_str().into(),
                format!("{}, attempt {}", held.step, held.attempt).into(),
                format!("lease ends {}", ago(&held.lease_ends_at)).into(),
            ]);
        }
    }
    table
}

impl Claim {
    /// The steps that it claims.
    fn names(&self) -> String {
        match (&self.steps, self.except.is_empty()) {
            (Some(steps), _) => steps.join(", "),
            (None, true) => "all".to_owned(),
            (None, false) => format!("all but {}", self.except.join(", ")),
        }
    }
}
