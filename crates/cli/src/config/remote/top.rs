//! `reveille top`.

use clap::Args;

use super::Remote;

pub(super) const EXAMPLES: &str = "\
Examples:
  reveille top                              of the server on this machine
  reveille top --server https://reveille.example --token-file ~/.reveille-token

Keys: 1 to 5 or the arrow keys choose a tab, j and k scroll, r reads again, q ends.

The server says when something has changed; as long as nothing happens, nothing is asked.";

/// `reveille top`.
#[derive(Debug, Args)]
pub struct Top {
    /// The server.
    #[command(flatten)]
    pub remote: Remote,
}
