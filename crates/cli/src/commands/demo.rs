//! `reveille demo`: the demo's clients against a running server.

use super::remote::Remote;
use crate::{config, demo, error::Error, terminal::Interrupt};

/// `reveille demo`. Ends with Ctrl-C, which is its normal end.
pub(super) async fn run(args: &config::Remote) -> Result<(), Error> {
    let remote = Remote::new(args)?;
    let mut interrupt = Interrupt::listen()?;
    // An unreachable server or a missing right is an error at once.
    let Some(prepared) = interrupt.or(demo::prepare(&remote.client)).await else { return Ok(()) };
    prepared?;
    remote.screen.note(format_args!("the demo runs against {}; Ctrl-C ends it", remote.client.address()));
    // Dropping the clients ends them.
    interrupt.or(demo::clients(&remote.client).join_all()).await;
    Ok(())
}
