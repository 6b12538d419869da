//! Arguments of the commands that speak to a running server.

pub mod dlq;
pub mod group;
pub mod namespace;
mod noun;
mod operator;
pub mod queue;
pub mod schedule;
mod seek;
pub mod task;
pub mod template;
pub mod token;
pub mod top;
pub mod worker;

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use clap::Args;

pub use noun::{Noun, Of};
pub use operator::Operator;
pub use seek::SeekTarget;

use super::SecretUrl;
use crate::{
    client::{Address, Client},
    error::Error,
    terminal::Screen,
};

/// The variable with the token. There is no flag for it: other users of a machine can read a command line.
const TOKEN: &str = "REVEILLE_TOKEN";
/// The largest token file: a JWT has a few kilobytes.
const TOKEN_MAX: u64 = 64 * 1024;

/// The server that a command speaks to, and how it prints. Every command of a noun has these flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct Remote {
    /// Address of the server; may have a path. The token is in REVEILLE_TOKEN
    #[arg(
        long,
        global = true,
        env = "REVEILLE_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:6632",
        value_name = "URL"
    )]
    server: SecretUrl,
    /// File with the token, instead of REVEILLE_TOKEN
    #[arg(long, global = true, env = "REVEILLE_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON, as the server answers it; streams print one line per element
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
}

impl Remote {
    /// A client of the server, which is not contacted yet.
    ///
    /// # Errors
    /// If the address or the token is not valid.
    pub fn client(&self) -> Result<Client, Error> {
        let address: Address = self
            .server
            .reveal()
            .parse()
            .map_err(|error| Error::Setting { key: "--server (REVEILLE_URL)", source: Box::new(error) })?;
        Ok(Client::new(address, self.token()?.as_deref())?)
    }

    /// Where the command prints.
    pub fn screen(&self) -> Screen {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Screen::new(self.json, !is_set("NO_COLOR") && !is_dumb)
    }

    fn token(&self) -> Result<Option<String>, Error> {
        let token = match &self.token_file {
            Some(file) => Some(token_of(file).map_err(|reason| Error::Setting {
                key: "--token-file (REVEILLE_TOKEN_FILE)",
                source: reason.into(),
            })?),
            None => std::env::var(TOKEN).ok(),
        };
        Ok(token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()))
    }
}

fn token_of(file: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
    let mut text = String::new();
    File::open(file).and_then(|file| file.take(TOKEN_MAX).read_to_string(&mut text)).map_err(unreadable)?;
    if text.trim().is_empty() {
        return Err(format!("{} is empty", file.display()));
    }
    Ok(text)
}

/// Confirms a destructive command.
#[derive(Clone, Copy, Debug, Args)]
pub struct Confirmation {
    /// Do it without asking
    #[arg(long, short = 'y')]
    pub yes: bool,
}
