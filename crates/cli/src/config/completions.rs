//! `reveille completions`.

use clap::Args;
use clap_complete::Shell;

pub(super) const EXAMPLES: &str = "\
Examples:
  source <(reveille completions bash)       in this shell; in ~/.bashrc for every shell
  reveille completions zsh > ~/.zfunc/_reveille
  reveille completions fish > ~/.config/fish/completions/reveille.fish

Completes commands, flags and their fixed values. Names of queues and tasks are not asked from a server.";

/// `reveille completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_parser = shell)]
    pub shell: Shell,
}

/// The shells that are tested.
fn shell(text: &str) -> Result<Shell, String> {
    match text {
        "bash" => Ok(Shell::Bash),
        "zsh" => Ok(Shell::Zsh),
        "fish" => Ok(Shell::Fish),
        _ => Err("must be bash, zsh or fish".to_owned()),
    }
}
