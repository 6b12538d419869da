//! Asking before something is destroyed.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::{error::Error, exit};

/// Something was not confirmed, so it was not done.
#[derive(Debug, thiserror::Error)]
pub enum Declined {
    /// There is no terminal to ask on.
    #[error("{touches}: add --yes to confirm, because there is no terminal to ask on; nothing was changed")]
    NoTerminal {
        /// What would have been done.
        touches: String,
    },
    /// The answer was no.
    #[error("not confirmed; nothing was changed")]
    No,
}

impl Declined {
    /// The exit code of the command.
    pub fn exit_code(&self) -> u8 {
        match self {
            Declined::NoTerminal { .. } => exit::USAGE,
            Declined::No => exit::FAILED,
        }
    }
}

pub(super) async fn ask(touches: &str, yes: bool) -> Result<(), Error> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Declined::NoTerminal { touches: touches.to_owned() }.into());
    }
    let question = format!("{touches}\nContinue? [y/N] ");
    let answer = tokio::task::spawn_blocking(move || {
        let mut err = io::stderr().lock();
        let _ = write!(err, "{question}").and_then(|()| err.flush());
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.map_err(io::Error::other).and_then(|answer| answer).unwrap_or_default();
    if is_yes(&answer) { Ok(()) } else { Err(Declined::No.into()) }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a clear yes confirms.
    #[test]
    fn only_yes_confirms() {
        assert!(["y\n", "Y", " yes \n", "YES"].into_iter().all(is_yes));
        assert!(!["", "\n", "n", "no", "yeah", "j"].into_iter().any(is_yes));
    }
}
