//! `reveille schedule`: tasks at certain times.

mod set;
mod show;

use serde::Deserialize;

use super::remote::Remote;
use crate::{
    client::Route,
    config::remote::schedule::{Command, Name},
    error::Error,
    terminal::when,
};

/// Runs one of its commands.
pub(super) async fn run(remote: &Remote, command: Command) -> Result<(), Error> {
    match command {
        Command::List(args) => show::list(remote, args).await,
        Command::Show(args) => show::one(remote, args).await,
        Command::Set(args) => set::set(remote, args).await,
        Command::Pause(schedule) => set::pause(remote, &schedule).await,
        Command::Resume(schedule) => set::resume(remote, &schedule).await,
        Command::Run(schedule) => set::run_now(remote, &schedule).await,
        Command::Delete(args) => set::delete(remote, args).await,
    }
}

fn route(Name { namespace, name }: &Name) -> Route {
    Route::new("/v1/schedules").name(namespace).name(name)
}

/// A schedule, as the server describes it.
#[derive(Deserialize)]
struct Schedule {
    namespace: String,
    name: String,
    template: String,
    version: String,
    cron: Option<String>,
    time_zone: Option<String>,
    at: Option<String>,
    paused: Option<bool>,
    next_at: Option<String>,
    last_at: Option<String>,
    last_task: Option<String>,
    last_error: Option<String>,
    missed: String,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    upcoming: Vec<String>,
}

impl Schedule {
    /// When it runs.
    fn times(&self) -> String {
        match (&self.cron, &self.at) {
            (Some(cron), _) => match &self.time_zone {
                Some(zone) => format!("{cron} ({zone})"),
                None => cron.clone(),
            },
            (None, Some(at)) => format!("once at {at}"),
            (None, None) => String::new(),
        }
    }

    /// When it runs next.
    fn next(&self) -> String {
        match (&self.next_at, self.paused) {
            (_, Some(true)) => "paused".to_owned(),
            (Some(next), _) => when(next),
            (None, _) => "never".to_owned(),
        }
    }
}
