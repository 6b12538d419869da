//! `reveille queue peek`.

use super::messages::{read, route, table};
use crate::{client::Route, commands::remote::Remote, config::remote::queue::Peek, error::Error};

pub(super) async fn run(remote: &Remote, args: Peek) -> Result<(), Error> {
    let route = match &args.group {
        // What the group gets next, oldest first.
        Some(group) => Route::new("/v1/queues").name(&args.queue).and("peek").query("group", group),
        None => route(&args.queue)
            .maybe("status", args.status.as_ref())
            .maybe("from", args.from.as_ref())
            .maybe("to", args.to.as_ref())
            .query("payloads", !args.no_payload)
            .maybe("after", args.after.as_ref()),
    };
    let answer = remote.client.get(&route.maybe("partition", args.partition).query("limit", args.limit)).await?;
    if remote.screen.is_json() {
        return remote.screen.json(answer.text());
    }
    let (messages, next) = read(&answer)?;
    remote.screen.table(&table(&messages), "no messages")?;
    remote.next(next.as_deref());
    Ok(())
}
