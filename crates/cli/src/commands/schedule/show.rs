//! `reveille schedule list` and `show`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Schedule, route};
use crate::{
    client::Route,
    commands::remote::Remote,
    config::remote::schedule::{List, Show},
    error::Error,
    terminal::{Cell, Column, Style, Table, ago, compact, printable, when},
};

#[derive(Deserialize)]
struct Page {
    schedules: Vec<Schedule>,
    next: Option<String>,
}

pub(super) async fn list(remote: &Remote, args: List) -> Result<(), Error> {
    let paused = args.paused.then_some(true).or(args.active.then_some(false));
    let route = Route::new("/v1/schedules")
        .maybe("namespace", args.namespace)
        .maybe("template", args.template)
        .maybe("paused", paused)
        .query("limit", args.limit)
        .maybe("after", args.after);
    let answer = remote.client.get(&route).await?;
    remote.show(&answer, |page: Page| {
        let mut table = Table::new([
            Column::id("namespace"),
            Column::id("name"),
            Column::text("template"),
            Column::text("when"),
            Column::text("next"),
            Column::text("last"),
            Column::text("error"),
        ]);
        for schedule in &page.schedules {
            let next = match (&schedule.next_at, schedule.paused) {
                (_, Some(true)) => Cell::styled("paused", Style::Busy),
                (next, _) => Cell::maybe(next.as_deref().map(ago)),
            };
            table.row([
                schedule.namespace.as_str().into(),
                schedule.name.as_str().into(),
                format!("{} {}", schedule.template, schedule.version).into(),
                schedule.times().into(),
                next,
                Cell::maybe(schedule.last_at.as_deref().map(ago)),
                Cell::styled(schedule.last_error.as_deref().unwrap_or_default(), Style::Bad),
            ]);
        }
        remote.screen.table(&table, "no schedules")?;
        remote.next(page.next.as_deref());
        Ok(())
    })
}

pub(super) async fn one(remote: &Remote, args: Show) -> Result<(), Error> {
    let answer = remote.client.get(&route(&args.schedule).query("upcoming", args.upcoming)).await?;
    #[derive(Deserialize)]
    struct Context<'a> {
        #[serde(borrow)]
        context: &'a RawValue,
    }
    remote.show(&answer, |schedule: Schedule| {
        let Context { context } = answer.json()?;
        let text = |text: &str| printable(text).into_owned();
        let mut properties = vec![
            ("schedule", text(&format!("{}/{}", schedule.namespace, schedule.name))),
            ("template", text(&format!("{} {}", schedule.template, schedule.version))),
            ("when", text(&schedule.times())),
            ("next", schedule.next()),
            ("missed ticks", schedule.missed.clone()),
            ("tags", text(&schedule.tags.join(", "))),
            ("context", text(&compact(context.get()))),
        ];
        properties.extend(schedule.last_at.as_deref().map(|at| ("last", when(at))));
        properties.extend(schedule.last_task.as_deref().map(|task| ("last task", text(task))));
        properties.extend(schedule.last_error.as_deref().map(|error| ("last error", text(error))));
        remote.screen.properties(&properties)?;
        if !schedule.upcoming.is_empty() {
            remote.screen.line("")?;
        }
        schedule.upcoming.iter().try_for_each(|tick| remote.screen.line(when(tick)))
    })
}
