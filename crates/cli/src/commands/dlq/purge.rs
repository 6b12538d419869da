//! `reveille dlq purge`.

use serde::Deserialize;

use super::{bounded, route};
use crate::{commands::remote::Remote, config::remote::dlq::Purge, error::Error, terminal::count_of};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Purged {
    purged: u64,
    would_purge: Option<u64>,
}

pub(super) async fn run(remote: &Remote, args: Purge) -> Result<(), Error> {
    bounded(args.filter.is_empty(), args.all)?;
    let route = || route(&args.filter).maybe("all", args.all.then_some(true));
    let would: Purged = remote.client.delete(&route().query("dryRun", true)).await?.json()?;
    let count = would.would_purge.unwrap_or_default();
    if count == 0 {
        remote.screen.note("no dead letters match");
        return Ok(());
    }
    let touches = format!("{} will be deleted", count_of(count, "dead letter"));
    remote.screen.confirm(touches, args.confirmation.yes).await?;
    let answer = remote.client.delete(&route()).await?;
    let purged: Purged = answer.json()?;
    remote.changed(&answer, format_args!("{} deleted", count_of(purged.purged, "dead letter")))
}
