//! Pushing a message per line, in batches.
//!
//! One batch is sent at a time, so at most two batches are in memory however long the input is, and there is always
//! a line up to which everything is pushed. That line is what an interrupted push prints.

use std::path::Path;

use serde_json::value::RawValue;

use super::{Item, Pushed, Request, route};
use crate::{
    commands::{input::Lines, remote::Remote},
    config::remote::queue::Push,
    error::Error,
    terminal::{Interrupt, count_of},
};

/// A batch is sent before it has more bytes: servers accept ten megabytes by default.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// What became of the messages so far.
#[derive(Default)]
struct Total {
    pushed: u64,
    duplicates: u64,
    failed: u64,
    /// The first failure.
    why: Option<String>,
}

pub(super) async fn run(remote: &Remote, args: &Push, file: &Path) -> Result<(), Error> {
    let mut lines = Lines::open(file).await?;
    let mut interrupt = Interrupt::listen()?;
    let mut progress = remote.screen.progress("pushing", None);
    let mut total = Total::default();
    let mut batch = Vec::new();
    let mut bytes = 0;
    // Everything up to this line is pushed.
    let mut done = args.skip;
    loop {
        let line = match interrupt.or(lines.next()).await {
            None => return Err(Error::Interrupted { resume: resume(args, done) }),
            Some(line) => line?,
        };
        let is_last = line.is_none();
        if let Some(line) = line.filter(|line| lines.number() > args.skip && !line.trim().is_empty()) {
            let number = lines.number();
            let id = args.ids.as_ref().map(|prefix| format!("{prefix}{number}"));
            let item = Item::of(args, &line, id)
                .map_err(|reason| Error::Input { what: format!("line {number} {reason}; {}", resume(args, done)) })?;
            bytes += item.size();
            batch.push(item);
        }
        if !batch.is_empty() && (is_last || batch.len() >= args.batch as usize || bytes >= BATCH_BYTES) {
            match interrupt.or(send(remote, &batch, &mut total)).await {
                None => return Err(Error::Interrupted { resume: resume(args, done) }),
                Some(Err(Error::Client(source))) => {
                    return Err(Error::Stopped { resume: resume(args, done), source });
                }
                Some(sent) => sent?,
            }
            (done, bytes) = (lines.number(), 0);
            batch.clear();
            progress.set(total.pushed + total.duplicates + total.failed);
        }
        if is_last {
            break;
        }
    }
    progress.clear();
    finish(remote, &total)
}

async fn send(remote: &Remote, batch: &[Item<'_>], total: &mut Total) -> Result<(), Error> {
    let answer = remote.client.post(&route(), &Request { items: batch }).await?;
    for pushed in answer.json::<Vec<Pushed>>()? {
        match pushed.status.as_str() {
            "duplicate" => total.duplicates += 1,
            "failed" => {
                total.failed += 1;
                total.why = total.why.take().or(pushed.error);
            }
            _ => total.pushed += 1,
        }
    }
    if remote.screen.is_json() {
        for each in answer.json::<Vec<&RawValue>>()? {
            remote.screen.json_line(each.get())?;
        }
    }
    Ok(())
}

/// What is done, and how to continue.
fn resume(args: &Push, done: u64) -> String {
    let again = match args.ids.is_some() || args.items {
        true => "",
        false => "; the batch after it may have been pushed, too",
    };
    format!("the first {} are pushed: continue with --skip {done}{again}", count_of(done, "line"))
}

fn finish(remote: &Remote, total: &Total) -> Result<(), Error> {
    let Total { pushed, duplicates, failed, why } = total;
    if *failed > 0 {
        let why = why.as_deref().unwrap_or("no reason was given");
        let what = format!("{pushed} pushed, {} not pushed: {why}", count_of(*failed, "message"));
        return Err(Error::Incomplete { what });
    }
    if remote.screen.is_json() {
        return Ok(());
    }
    let duplicates = if *duplicates > 0 { format!(", {}", count_of(*duplicates, "duplicate")) } else { String::new() };
    remote.screen.line(format_args!("{} pushed{duplicates}", count_of(*pushed, "message")))
}
