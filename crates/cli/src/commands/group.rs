//! `reveille group`: consumer groups.

mod change;
mod show;

use serde::Deserialize;

pub(super) use self::change::seek;
use super::remote::Remote;
use crate::{
    config::remote::group::Command,
    error::Error,
    terminal::{Cell, Column, Style, Table, ago},
};

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: Command) -> Result<(), Error> {
    match command {
        Command::List(args) => show::list(remote, args).await,
        Command::Show(args) => show::one(remote, args).await,
        Command::Lagging(args) => show::lagging(remote, args).await,
        Command::Seek(args) => change::seek(remote, &args.group, &args.queue, &args.target).await,
        Command::Pause(args) => change::pause(remote, &args, true).await,
        Command::Resume(args) => change::pause(remote, &args, false).await,
        Command::Subscribe(args) => change::subscribe(remote, args).await,
        Command::Delete(args) => change::delete(remote, args).await,
    }
}

/// A consumer group of a queue.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Group {
    name: String,
    queue_name: String,
    partitions: u64,
    lagging_partitions: u64,
    total_lag: u64,
    max_time_lag: f64,
    active_leases: u64,
    last_read_at: Option<String>,
    state: String,
}

impl Group {
    /// A row for each group.
    pub(super) fn table(groups: &[Group]) -> Table {
        let mut table = Table::new([
            Column::id("group"),
            Column::id("queue"),
            Column::text("state"),
            Column::number("lag"),
            Column::text("oldest"),
            Column::number("leases"),
            Column::text("lagging"),
            Column::text("last read"),
        ]);
        for group in groups {
            let style = match group.state.as_str() {
                "Lagging" => Style::Bad,
                "Active" => Style::Busy,
                _ => Style::Good,
            };
            table.row([
                group.name.as_str().into(),
                group.queue_name.as_str().into(),
                Cell::styled(group.state.to_lowercase(), style),
                Cell::count(group.total_lag),
                Cell::maybe((group.total_lag > 0).then(|| show::seconds(group.max_time_lag))),
                Cell::count(group.active_leases),
                format!("{} of {} partitions", group.lagging_partitions, group.partitions).into(),
                Cell::maybe(group.last_read_at.as_deref().map(ago)),
            ]);
        }
        table
    }
}
