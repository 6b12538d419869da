//! `reveille down`: stops the private PostgreSQL that a killed `reveille up` left running.
//!
//! A running `up` stops its own PostgreSQL when it ends; this command fails while there is one, so that it cannot stop
//! the database of a running server.

use reveille_pg::embedded::Directory;

use super::{owner::Owner, say};
use crate::{config, error::Error};

/// `reveille down`.
pub(super) async fn run(args: config::Down) -> Result<(), Error> {
    let data_dir = args.embedded.data_dir()?;
    let Some(directory) = Directory::find(&data_dir).await? else {
        say(format_args!("nothing to stop: {} is not a data directory of `reveille up`", data_dir.display()));
        return Ok(());
    };
    let _owner = match Owner::take(&directory) {
        Err(Error::Owned { dir, pid }) => return Err(Error::InUse { dir, pid }),
        owner => owner?,
    };
    match directory.stop().await? {
        Some(pid) => say(format_args!("stopped PostgreSQL (process {pid}) in {}", directory.path().display())),
        None => say(format_args!("nothing to stop: no PostgreSQL runs in {}", directory.path().display())),
    }
    Ok(())
}
