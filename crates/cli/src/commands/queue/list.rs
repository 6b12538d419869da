//! `reveille queue list`.

use serde::Deserialize;

use crate::{
    client::{self, Answer, Route},
    commands::remote::Remote,
    config::remote::queue::List,
    error::Error,
    terminal::{Cell, Column, Style, Table, ago},
};

#[derive(Deserialize)]
struct Listed {
    queues: Vec<Queue>,
    next: Option<String>,
}

/// A queue with its backlog. Of a queue with very many partitions no messages are counted.
#[derive(Deserialize)]
struct Queue {
    name: String,
    paused_at: Option<String>,
    partitions: u64,
    groups: u64,
    paused_groups: u64,
    depth: Option<u64>,
    leased: Option<u64>,
    oldest_at: Option<String>,
    dead_letters: u64,
    pushed_per_second: f64,
    acked_per_second: f64,
}

pub(super) async fn run(remote: &Remote, args: List) -> Result<(), Error> {
    let route = Route::new("/v1/queues").maybe("search", args.search).maybe("namespace", args.namespace);
    let answer = remote.client.get(&route.query("limit", args.limit).maybe("after", args.after)).await?;
    remote.show(&answer, |listed: Listed| {
        remote.screen.table(&listed.table(), "no queues")?;
        remote.next(listed.next.as_deref());
        Ok(())
    })
}

/// The table of an answer.
pub(in crate::commands) fn table(answer: &Answer) -> Result<Table, client::Error> {
    Ok(answer.json::<Listed>()?.table())
}

impl Listed {
    fn table(&self) -> Table {
        let mut table = Table::new([
            Column::id("queue"),
            Column::number("depth"),
            Column::number("leased"),
            Column::text("oldest"),
            Column::number("in/s"),
            Column::number("out/s"),
            Column::number("dead"),
            Column::number("groups"),
            Column::number("partitions"),
            Column::text("state"),
        ]);
        for queue in &self.queues {
            let dead = if queue.dead_letters > 0 { Style::Bad } else { Style::Dim };
            table.row([
                queue.name.as_str().into(),
                queue.depth.map_or_else(|| Cell::maybe(None::<u8>), Cell::count),
                queue.leased.map_or_else(|| Cell::maybe(None::<u8>), Cell::count),
                Cell::maybe(queue.oldest_at.as_deref().map(ago)),
                rate(queue.pushed_per_second),
                rate(queue.acked_per_second),
                Cell::styled(queue.dead_letters, dead),
                Cell::count(queue.groups),
                Cell::count(queue.partitions),
                queue.state(),
            ]);
        }
        table
    }
}

impl Queue {
    fn state(&self) -> Cell {
        match (&self.paused_at, self.paused_groups) {
            (Some(since), _) => Cell::styled(format!("paused {}", ago(since)), Style::Busy),
            (None, 0) => Cell::default(),
            (None, paused) => Cell::styled(format!("{paused} of {} groups paused", self.groups), Style::Busy),
        }
    }
}

fn rate(rate: f64) -> Cell {
    Cell::styled(format!("{rate:.1}"), if rate > 0.0 { Style::Plain } else { Style::Dim })
}
