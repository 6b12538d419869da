//! The tabs: what each reads, and the tables that it shows.

use super::overview;
use crate::{
    client::{Answer, Client, Error, Route},
    commands::{group, queue, task},
    terminal::{Cell, Column, Style, Table, duration},
};

/// A tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Overview,
    Queues,
    Groups,
    Tasks,
    Wake,
}

/// What a tab shows, as the server answered. Tables are made when they are drawn, so that ages count on.
pub(super) struct Content(Vec<Answer>);

impl Tab {
    pub(super) const ALL: [Tab; 5] = [Tab::Overview, Tab::Queues, Tab::Groups, Tab::Tasks, Tab::Wake];

    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Overview => "Overview",
            Tab::Queues => "Queues",
            Tab::Groups => "Groups",
            Tab::Tasks => "Tasks",
            Tab::Wake => "Wake",
        }
    }

    /// Whether it shows something of this product.
    pub(super) fn shows(self, product: &str) -> bool {
        match self {
            Tab::Queues | Tab::Groups => product == "queue",
            Tab::Tasks => product == "flow",
            Tab::Overview | Tab::Wake => true,
        }
    }

    fn routes(self) -> Vec<Route> {
        match self {
            Tab::Overview => vec![Route::new("/v1/overview")],
            Tab::Queues => vec![Route::new("/v1/queues").query("limit", 200)],
            Tab::Groups => vec![Route::new("/api/v1/consumer-groups")],
            Tab::Tasks => vec![Route::new("/v1/tasks").query("limit", 100)],
            // Both are answered from memory.
            Tab::Wake => vec![Route::new("/api/v1/analytics/system-metrics"), Route::new("/v1/orchestration")],
        }
    }

    /// Its table.
    pub(super) fn table(self, Content(answers): &Content) -> Result<Table, Error> {
        let Some(first) = answers.first() else { return Ok(Table::new([])) };
        match self {
            Tab::Overview => overview::table(first),
            Tab::Queues => queue::list::table(first),
            Tab::Groups => Ok(group::Group::table(&first.json::<Vec<group::Group>>()?)),
            Tab::Tasks => task::list::table_of(first),
            Tab::Wake => wake(answers),
        }
    }
}

/// Reads a tab.
pub(super) async fn read(client: &Client, tab: Tab) -> Result<Content, Error> {
    let mut answers = Vec::new();
    for route in tab.routes() {
        answers.push(client.get(&route).await?);
    }
    Ok(Content(answers))
}

/// Why nothing is being asked, or what is.
fn wake(answers: &[Answer]) -> Result<Table, Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Server {
        uptime_seconds: f64,
        listening: bool,
        polling: bool,
        waiting_pops: u64,
        waiting_groups: u64,
        polls: u64,
        empty_polls: u64,
        failed_polls: u64,
        pops_served: u64,
        pops_refused: u64,
    }
    #[derive(serde::Deserialize)]
    struct Orchestrators {
        orchestrators: Vec<Orchestrator>,
    }
    #[derive(serde::Deserialize)]
    struct Orchestrator {
        health: Health,
    }
    #[derive(serde::Deserialize)]
    struct Health {
        checks: Vec<Check>,
    }
    #[derive(serde::Deserialize)]
    struct Check {
        name: String,
        healthy: bool,
        detail: String,
    }
    let mut table = Table::new([Column::id("what"), Column::text("value")]);
    let mut row = |what: &str, value: String, style| table.row([what.into(), Cell::styled(value, style)]);
    let [server, orchestrators, ..] = answers else { return Ok(table) };
    let server: Server = server.json()?;
    let uptime = std::time::Duration::try_from_secs_f64(server.uptime_seconds).unwrap_or_default();
    row("this server runs for", duration(uptime), Style::Plain);
    match server.listening {
        true => row("listener", "connected: new work is announced, nothing is polled for it".into(), Style::Good),
        false => row("listener", "not connected: work of other servers is found by polling".into(), Style::Bad),
    }
    let mode = if server.polling { "polling" } else { "notifications" };
    row("mode", mode.into(), if server.polling { Style::Busy } else { Style::Good });
    row("waiting pops", format!("{} in {} groups", server.waiting_pops, server.waiting_groups), Style::Plain);
    row("pops", format!("{} served, {} refused", server.pops_served, server.pops_refused), Style::Plain);
    let polls = format!("{}, {} of them empty", server.polls, server.empty_polls);
    row("polls since the start", polls, Style::Plain);
    let failed = if server.failed_polls > 0 { Style::Bad } else { Style::Dim };
    row("failed polls", server.failed_polls.to_string(), failed);
    let Orchestrators { orchestrators } = orchestrators.json()?;
    for check in orchestrators.into_iter().flat_map(|orchestrator| orchestrator.health.checks) {
        let what = format!("task graphs: {}", check.name.replace('_', " "));
        row(&what, check.detail, if check.healthy { Style::Good } else { Style::Bad });
    }
    Ok(table)
}
