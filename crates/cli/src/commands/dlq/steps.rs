//! `reveille dlq replay` and `purge`: all dead letters of a filter, in steps.
//!
//! A dry run says how many there are and which is the newest; later ones stay. Each step is a request, so there is
//! progress, and an interruption leaves nothing half done: the same command continues.

use serde::{Deserialize, Serialize};

use super::bounded;
use crate::{
    client::Route,
    commands::remote::Remote,
    config::remote::{Confirmation, dlq::Filter},
    error::Error,
    terminal::{Interrupt, count_of, printable},
};

/// The dead letters that a question names.
const SAMPLE: usize = 3;

/// What is done with dead letters.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    pub(super) route: &'static str,
    /// As in "is …".
    pub(super) done: &'static str,
    pub(super) doing: &'static str,
}

#[derive(Clone, Serialize)]
struct Request<'a> {
    queue: Option<&'a str>,
    partition: Option<&'a str>,
    group: Option<&'a str>,
    error: Option<&'a str>,
    from: Option<&'a str>,
    to: Option<&'a str>,
    all: bool,
    dry_run: bool,
    up_to: Option<i64>,
    after: Option<i64>,
}

#[derive(Deserialize)]
struct Done {
    done: u64,
    kept: Vec<Kept>,
    next: Option<i64>,
    count: Option<u64>,
    up_to: Option<i64>,
    #[serde(default)]
    sample: Vec<Sample>,
}

#[derive(Deserialize)]
struct Kept {
    reason: String,
}

#[derive(Deserialize)]
struct Sample {
    id: i64,
    queue: String,
    error: Option<String>,
}

pub(super) async fn run(
    remote: &Remote,
    steps: Steps,
    filter: &Filter,
    all: bool,
    confirmation: Confirmation,
) -> Result<(), Error> {
    bounded(filter.is_empty(), all)?;
    let Filter { queue, partition, group, error, from, to } = filter;
    let request = Request {
        queue: queue.as_deref(),
        partition: partition.as_deref(),
        group: group.as_deref(),
        error: error.as_deref(),
        from: from.as_deref(),
        to: to.as_deref(),
        all,
        dry_run: true,
        up_to: None,
        after: None,
    };
    let route = Route::new(steps.route);
    let found: Done = remote.client.post(&route, &request).await?.json()?;
    let count = found.count.unwrap_or_default();
    if count == 0 {
        remote.screen.note("no dead letters match");
        return Ok(());
    }
    let sample = found.sample.iter().take(SAMPLE).map(|letter| {
        let why = letter.error.as_deref().unwrap_or("no error");
        format!("\n  {}", printable(&format!("{} of {:?}: {why}", letter.id, letter.queue)))
    });
    let sample: String = sample.collect();
    let touches = format!("{} will be {}, the newest of them:{}", count_of(count, "dead letter"), steps.done, sample);
    remote.screen.confirm(touches, confirmation.yes).await?;
    apply(remote, steps, &route, Request { dry_run: false, up_to: found.up_to, ..request }, count).await
}

async fn apply(
    remote: &Remote,
    steps: Steps,
    route: &Route,
    mut request: Request<'_>,
    count: u64,
) -> Result<(), Error> {
    let mut interrupt = Interrupt::listen()?;
    let mut progress = remote.screen.progress(steps.doing, Some(count));
    let (mut done, mut kept, mut why) = (0, 0, None);
    let resume = |done| format!("{} {}; run the command again to continue", count_of(done, "dead letter"), steps.done);
    loop {
        let answer = match interrupt.or(remote.client.post(route, &request)).await {
            None => return Err(Error::Interrupted { resume: resume(done) }),
            Some(Err(source)) if done > 0 => return Err(Error::Stopped { resume: resume(done), source }),
            Some(answer) => answer?,
        };
        let step: Done = answer.json()?;
        done += step.done;
        kept += step.kept.len() as u64;
        why = why.or_else(|| step.kept.into_iter().next());
        progress.set(done);
        if remote.screen.is_json() {
            remote.screen.json_line(answer.text())?;
        }
        match step.next {
            Some(next) => request.after = Some(next),
            None => break,
        }
    }
    progress.clear();
    if !remote.screen.is_json() {
        remote.screen.line(format_args!("{} {}", count_of(done, "dead letter"), steps.done))?;
    }
    match why {
        None => Ok(()),
        Some(Kept { reason }) => {
            let kept = count_of(kept, "dead letter");
            Err(Error::Incomplete {
                what: format!("{kept} not {}, the first because: {}", steps.done, printable(&reason)),
            })
        }
    }
}
