//! What every command that speaks to a server has: a client and a screen.

use crate::{client::Client, config, error::Error, terminal::Screen};

/// The server and the screen of a command.
pub(super) struct Remote {
    pub(super) client: Client,
    pub(super) screen: Screen,
}

impl Remote {
    pub(super) fn new(settings: &config::Remote) -> Result<Remote, Error> {
        Ok(Remote { client: settings.client()?, screen: settings.screen() })
    }

    /// Says how to get the rest of a list that is shown in part.
    pub(super) fn more(&self, offset: u32, shown: usize, total: u64) {
        let end = u64::from(offset) + shown as u64;
        if end < total && shown > 0 {
            self.screen.note(format_args!("{shown} of {total}; --offset {end} shows the next"));
        }
    }
}

/// The result of a command. If the reader of its output has ended, such as `head`, that is no error.
pub(super) fn ended(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
