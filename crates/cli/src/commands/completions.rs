//! `reveille completions`: a script that completes the command line in a shell.

use std::io::Write as _;

use clap::CommandFactory as _;

use crate::{
    config::{Cli, Completions},
    error::Error,
};

/// Prints the script.
pub(super) fn run(args: &Completions) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "reveille", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}
