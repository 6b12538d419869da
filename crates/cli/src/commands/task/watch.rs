//! `reveille task watch`: a task as it happens.
//!
//! The server sends each transition; nothing is polled. On a terminal the graph replaces the last one, elsewhere each
//! transition is a line. A connection that ends is continued after the last transition.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use serde::Deserialize;
use tokio::time::{sleep, timeout};

use super::{
    route, show,
    show::{Step, Task},
    state,
};
use crate::{
    client::{self, Event},
    commands::remote::Remote,
    error::Error,
    terminal::{Interrupt, Style, printable},
};

/// How long to wait for more transitions before the graph is drawn: they come in groups.
const QUIET: Duration = Duration::from_millis(50);
/// The pause before a connection is made again.
const RECONNECT: Duration = Duration::from_secs(1);
/// How often a connection may end in a row without a transition.
const RECONNECTS_MAX: u32 = 30;

#[derive(Deserialize)]
struct Transition {
    step: Option<String>,
    from: Option<String>,
    to: String,
    at: String,
    attempt: Option<u64>,
    worker: Option<String>,
}

pub(super) async fn run(remote: &Remote, task: &str) -> Result<(), Error> {
    let mut interrupt = Interrupt::listen()?;
    let resume = || Error::Interrupted { resume: format!("the task continues: `reveille task watch {task}`") };
    interrupt.or(follow(remote, task)).await.ok_or_else(resume)??;
    let answer = remote.client.get(&route(task).and("summary")).await?;
    #[derive(Deserialize)]
    struct Summary {
        status: String,
    }
    let Summary { status } = answer.json()?;
    match state::is_well(&status) {
        true => Ok(()),
        false => Err(Error::Incomplete { what: format!("the task has ended as {status}") }),
    }
}

/// Shows transitions until the task ends.
async fn follow(remote: &Remote, task: &str) -> Result<(), Error> {
    let mut view = View::new(remote, task).await?;
    let (mut last_id, mut failures) = (None::<String>, 0);
    loop {
        let connected = remote.client.events(&route(task).and("events"), last_id.as_deref()).await;
        let ended = match connected {
            Ok(None) => return view.draw(),
            Ok(Some(mut events)) => loop {
                let next = match timeout(QUIET, events.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        view.draw()?;
                        events.next().await
                    }
                };
                match next {
                    Ok(Some(event)) if event.kind == "end" => return view.draw(),
                    Ok(Some(event)) => {
                        view.take(&event)?;
                        (last_id, failures) = (event.id, 0);
                    }
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            },
            Err(error) => Some(error),
        };
        failures += 1;
        match ended {
            Some(error) if failures > RECONNECTS_MAX || !is_passing(&error) => return Err(error.into()),
            _ => sleep(RECONNECT).await,
        }
    }
}

/// Whether the connection may be made again.
fn is_passing(error: &client::Error) -> bool {
    use client::Error as E;
    matches!(error, E::Unreachable { .. } | E::NoAnswer { .. } | E::Cut { .. } | E::Unavailable { .. })
}

/// What is on the screen.
struct View<'a> {
    remote: &'a Remote,
    /// The steps of the graph; none where lines are printed.
    steps: Vec<Step>,
    status: String,
    /// The lines of the last drawing, which the next one replaces.
    drawn: usize,
    is_graph: bool,
    has_changed: bool,
}

impl<'a> View<'a> {
    async fn new(remote: &'a Remote, task: &str) -> Result<View<'a>, Error> {
        let answer = remote.client.get(&route(task)).await?;
        let Task { status, steps, .. } = show::read(&answer)?;
        // A drawing that is higher than the terminal could not be replaced.
        let fits = remote.screen.height().is_some_and(|height| steps.len() * 2 + 4 < height);
        let is_graph = fits && !remote.screen.is_json();
        Ok(View { remote, steps, status, drawn: 0, is_graph, has_changed: true })
    }

    /// Shows a transition, or notes it for the next drawing.
    fn take(&mut self, event: &Event) -> Result<(), Error> {
        let screen = &self.remote.screen;
        if screen.is_json() {
            return screen.json_line(&event.data);
        }
        let Ok(transition) = serde_json::from_str::<Transition>(&event.data) else { return Ok(()) };
        if !self.is_graph {
            return screen.line(self.line(&transition));
        }
        self.has_changed = true;
        let Some(name) = &transition.step else {
            self.status = transition.to;
            return Ok(());
        };
        if let Some(step) = self.steps.iter_mut().find(|step| step.name == *name) {
            step.state = transition.to;
            step.attempts = transition.attempt.unwrap_or(step.attempts);
            match step.state.as_str() {
                "in_progress" => (step.claimed_at, step.ended_at) = (Some(transition.at), None),
                "complete" | "error" => step.ended_at = Some(transition.at),
                _ => {}
            }
            step.worker = transition.worker.or_else(|| step.worker.take());
        }
        Ok(())
    }

    fn line(&self, transition: &Transition) -> String {
        let screen = &self.remote.screen;
        let Transition { step, from, to, at, attempt, worker } = transition;
        let time = at.split_once('T').map_or(at.as_str(), |(_, time)| time.trim_end_matches('Z'));
        let what = step.as_deref().unwrap_or("the task");
        let from = from.as_ref().map(|from| format!("{from} → ")).unwrap_or_default();
        let to = screen.styled(to, state::style(to));
        let by = match (attempt, worker) {
            (Some(attempt), Some(worker)) => format!("  attempt {attempt} by {}", printable(worker)),
            _ => String::new(),
        };
        format!("{}  {}  {from}{to}{}", screen.styled(&printable(time), Style::Dim), printable(what), by)
    }

    /// Draws the graph over the last one.
    fn draw(&mut self) -> Result<(), Error> {
        if !self.is_graph || !std::mem::take(&mut self.has_changed) {
            return Ok(());
        }
        let screen = &self.remote.screen;
        let state = screen.styled(&self.status, state::style(&self.status));
        let text = format!("{}\n\n{state}", screen.rendered(&show::steps(&self.steps)));
        let mut out = io::stdout().lock();
        if self.drawn > 0 {
            write!(out, "\x1b[{}A\x1b[J", self.drawn)?;
        }
        writeln!(out, "{text}").and_then(|()| out.flush())?;
        self.drawn = text.lines().count();
        Ok(())
    }
}
