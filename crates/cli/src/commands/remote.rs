//! What every command that speaks to a server has: a client and a screen.

use std::fmt::Display;

use serde::Deserialize;

use super::{dlq, group, namespace, queue, schedule, task, template, token, top, worker};
use crate::{
    client::{Answer, Client},
    config::{self, remote::Noun},
    error::Error,
    terminal::{Screen, printable},
};

/// Runs a command.
pub(super) async fn run(noun: Noun) -> Result<(), Error> {
    match noun {
        Noun::Queue(of) => queue::run(&Remote::new(&of.remote)?, of.command).await,
        Noun::Dlq(of) => dlq::run(&Remote::new(&of.remote)?, of.command).await,
        Noun::Group(of) => group::run(&Remote::new(&of.remote)?, of.command).await,
        Noun::Template(of) => template::run(&Remote::new(&of.remote)?, of.command).await,
        Noun::Task(of) => task::run(&Remote::new(&of.remote)?, of.command).await,
        Noun::Schedule(of) => schedule::run(&Remote::new(&of.remote)?, of.command).await,
        Noun::Token(of) => token::run(&Remote::new(&of.remote)?, of.command).await,
        Noun::Whoami(args) => token::whoami(&Remote::new(&args.remote)?).await,
        Noun::Worker(of) => worker::run(&Remote::new(&of.remote)?, of.command).await,
        Noun::Top(args) => top::run(Remote::new(&args.remote)?).await,
        Noun::Namespace(of) => namespace::run(&Remote::new(&of.remote)?, of.command).await,
    }
}

/// The server and the screen of a command.
pub(super) struct Remote {
    pub(super) client: Client,
    pub(super) screen: Screen,
}

impl Remote {
    pub(super) fn new(settings: &config::Remote) -> Result<Remote, Error> {
        Ok(Remote { client: settings.client()?, screen: settings.screen() })
    }

    /// Prints an answer: as it is for programs, and as `show` prints it for people.
    pub(super) fn show<'a, T: Deserialize<'a>>(
        &self,
        answer: &'a Answer,
        show: impl FnOnce(T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.screen.is_json() {
            return self.screen.json(answer.text());
        }
        show(answer.json()?)
    }

    /// Prints the answer to a change: as it is for programs, and as a sentence for people.
    pub(super) fn changed(&self, answer: &Answer, sentence: impl Display) -> Result<(), Error> {
        if self.screen.is_json() {
            return self.screen.json(answer.text());
        }
        self.screen.line(sentence)
    }

    /// Says how to get the next page of a list.
    pub(super) fn next(&self, next: Option<&str>) {
        if let Some(next) = next {
            self.screen.note(format_args!("there may be more; --after {} continues", printable(next)));
        }
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
