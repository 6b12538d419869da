//! The `reveille` program: reads the command line, runs the command, says what went wrong.

use std::{io::Write as _, process::ExitCode};

use reveille::{commands, config};

/// How a mistake in the command line ends, as most programs have it.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = match config::parse() {
        Ok(cli) => cli,
        Err(answer) if !answer.use_stderr() => {
            // --help and --version: not errors, and they hold nothing that was typed.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            // The parser quotes what it does not understand, and that may be a URL in the wrong place.
            complain(&config::redact(&error.render().to_string()));
            return ExitCode::from(USAGE);
        }
    };
    let runtime = tokio::runtime::Runtime::new().expect("the system gives a process its threads");
    let done = runtime.block_on(commands::run(cli));
    // What is still blocked in the system, such as the wait for another process's lock, must not hold up the end.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("error: {}\n", error.explain()));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Says what went wrong. The terminal may be gone, which is no reason to end with another code.
fn complain(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
