//! The `reveille` program: parses the command line, runs the command, prints errors.

use std::{io::Write as _, process::ExitCode};

use reveille::{commands, config, exit};

fn main() -> ExitCode {
    let cli = match config::parse() {
        Ok(cli) => cli,
        Err(answer) if !answer.use_stderr() => {
            // --help and --version are no errors and quote no input.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            // The parser quotes unknown arguments, which may be a URL in the wrong position.
            print_error(&config::redact(&error.render().to_string()));
            return ExitCode::from(exit::USAGE);
        }
    };
    let runtime = tokio::runtime::Runtime::new().expect("the system gives a process its threads");
    let done = runtime.block_on(commands::run(cli));
    // A blocking call, such as a wait for another process's lock, must not delay the exit.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("error: {}\n", error.explain()));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Prints an error. A closed terminal does not change the exit code.
fn print_error(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
