//! `reveille queue tail`: messages as they are pushed, without leasing them.
//!
//! The server says that queues have changed; then the newest messages are read up to those that were printed. As long
//! as nothing is pushed, nothing is asked.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use tokio::{sync::mpsc, time::sleep};

use super::messages::{Message, read, route};
use crate::{
    client::Answer,
    commands::{
        changes::{self, Change},
        remote::Remote,
    },
    config::remote::queue::Tail,
    error::Error,
    terminal::{Interrupt, Style, printable},
};

/// The shortest time between two readings.
const READ_EVERY: Duration = Duration::from_secs(1);
/// The messages of a request.
const PAGE: u32 = 500;
/// The most pages between two signals: more is pushed than a person reads, and the rest is skipped.
const PAGES_MAX: usize = 20;
/// Messages become visible when they are committed, later than their time says: at most about a statement's time limit.
const LATE: Duration = Duration::from_secs(60);
/// Signals that wait.
const SIGNALS: usize = 16;

/// What was printed.
#[derive(Default)]
struct Printed {
    /// The offset after the last message of each partition, by its id.
    ends: HashMap<String, i64>,
    /// When the newest was pushed.
    newest: Option<String>,
}

pub(super) async fn run(remote: &Remote, args: Tail) -> Result<(), Error> {
    let mut interrupt = Interrupt::listen()?;
    // Ctrl-C is the way to end it, so it is no failure.
    interrupt.or(follow(remote, &args)).await.unwrap_or(Ok(()))
}

async fn follow(remote: &Remote, args: &Tail) -> Result<(), Error> {
    let mut printed = Printed::default();
    let last = args.lines.max(1);
    let route = route(&args.queue).maybe("partition", args.partition.as_ref()).query("payloads", true);
    let answer = remote.client.get(&route.clone().query("limit", last)).await?;
    print(remote, &mut printed, &[answer], args.lines as usize)?;

    let (sender, mut receiver) = mpsc::channel(SIGNALS);
    let changes = tokio::spawn(changes::follow(remote.client.clone(), sender));
    while let Some(change) = receiver.recv().await {
        match change {
            Change::Of(products) if products.is_empty() || products.iter().any(|product| product == "queue") => {}
            Change::Of(_) | Change::Connected => continue,
            Change::Lost(why) => {
                remote.screen.note(format_args!("{}; connecting again", printable(&why)));
                continue;
            }
        }
        let from = printed.newest.as_deref().and_then(before);
        let mut answers = Vec::new();
        let mut after: Option<String> = None;
        while answers.len() < PAGES_MAX {
            let route = route.clone().maybe("from", from.as_ref()).maybe("after", after.as_ref());
            let answer = remote.client.get(&route.query("limit", PAGE)).await?;
            let (messages, next) = read(&answer)?;
            let is_known = !messages.is_empty() && messages.iter().all(|message| printed.has(message));
            after = next;
            answers.push(answer);
            if is_known || after.is_none() {
                break;
            }
        }
        if after.is_some() && answers.len() == PAGES_MAX {
            remote.screen.note("more is pushed than can be shown; some messages are left out");
        }
        print(remote, &mut printed, &answers, usize::MAX)?;
        sleep(READ_EVERY).await;
    }
    changes.abort();
    Ok(())
}

/// A little earlier than a time, as the server reads it.
fn before(time: &str) -> Option<String> {
    let at = SystemTime::from(reveille_web::parse_timestamp(time)?).checked_sub(LATE)?;
    Some(reveille_web::Timestamp(at.into()).to_string())
}

impl Printed {
    fn has(&self, message: &Message<'_>) -> bool {
        self.ends.get(&message.fields.partition_id).is_some_and(|end| message.fields.offset < *end)
    }

    fn add(&mut self, message: &Message<'_>) {
        let fields = &message.fields;
        let end = self.ends.entry(fields.partition_id.clone()).or_default();
        *end = (*end).max(fields.offset + 1);
        if self.newest.as_ref().is_none_or(|newest| *newest < fields.created_at) {
            self.newest = Some(fields.created_at.clone());
        }
    }
}

/// Prints the messages that were not printed yet, oldest first, and at most so many.
fn print(remote: &Remote, printed: &mut Printed, answers: &[Answer], most: usize) -> Result<(), Error> {
    let mut messages = Vec::new();
    for answer in answers {
        messages.extend(read(answer)?.0);
    }
    let mut new: Vec<&Message<'_>> = messages.iter().filter(|message| !printed.has(message)).collect();
    // Within a partition the order is that of the offsets; two pages may overlap.
    new.sort_by(|one, other| {
        let key = |it: &Message<'_>| (it.fields.created_at.clone(), it.fields.partition_id.clone(), it.fields.offset);
        key(one).cmp(&key(other))
    });
    new.dedup_by_key(|message| (message.fields.partition_id.clone(), message.fields.offset));
    let skipped = new.len().saturating_sub(most);
    for message in &new[skipped..] {
        if remote.screen.is_json() {
            remote.screen.json_line(message.raw.get())?;
        } else {
            remote.screen.line(line(remote, message))?;
        }
    }
    new.iter().for_each(|message| printed.add(message));
    Ok(())
}

fn line(remote: &Remote, message: &Message<'_>) -> String {
    let fields = &message.fields;
    let time = fields.created_at.split_once('T').map_or(fields.created_at.as_str(), |(_, time)| time);
    let time = remote.screen.styled(&printable(time.trim_end_matches('Z')), Style::Dim);
    let partition = printable(&fields.partition);
    format!("{time}  {partition}  {}  {}", printable(&fields.transaction_id), fields.payload().text())
}
