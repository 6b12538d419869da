//! The `reveille` program: reads the command line, runs the command, says what went wrong.

use std::process::ExitCode;

use clap::Parser as _;
use reveille::{
    commands,
    config::{Cli, redact},
};

/// How a mistake in the command line ends, as most programs have it.
const USAGE: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) if !answer.use_stderr() => {
            // --help and --version: not errors, and they hold nothing that was typed.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            // The parser quotes what it does not understand, and that may be a URL in the wrong place.
            eprint!("{}", redact(&error.render().to_string()));
            return ExitCode::from(USAGE);
        }
    };
    match commands::run(cli).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error.explain());
            ExitCode::from(error.exit_code())
        }
    }
}
