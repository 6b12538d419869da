//! `reveille token` and `reveille whoami`.

use clap::{Args, Subcommand};
use reveille_web::Grant;

use super::{Confirmation, Remote};

const CREATE_EXAMPLES: &str = "\
Examples:
  reveille token create shop --grant producer:queues=orders.* --grant viewer:queues=orders.*
  reveille token create dashboard --grant viewer --expires-in-days 90
  reveille token create ops --grant operator --payloads

A grant is a role (viewer, producer, worker, operator, admin), for everything or for the names that match a pattern:
ROLE:queues=PATTERN, ROLE:namespaces=PATTERN, or both, separated by a comma. The token is printed once.";

const LIST_EXAMPLES: &str = "\
Examples:
  reveille token list                       every token with its grants and its last use";

const REVOKE_EXAMPLES: &str = "\
Examples:
  reveille token revoke dashboard           on every server, within a second";

/// The examples of `reveille whoami`.
pub(super) const WHOAMI_EXAMPLES: &str = "\
Examples:
  reveille whoami                           what the token in REVEILLE_TOKEN may do";

/// The commands of `reveille token`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a token, and print it once
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Create),
    /// List tokens with their grants
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Revoke a token
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(Revoke),
}

/// `reveille token create`.
#[derive(Debug, Args)]
pub struct Create {
    /// Its name, which identifies its client
    pub name: String,
    /// A role, and what it is for; may be given several times
    #[arg(long = "grant", value_name = "GRANT", required = true)]
    pub grants: Vec<Grant>,
    /// Its client sees payloads
    #[arg(long)]
    pub payloads: bool,
    /// It expires after so many days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub expires_in_days: Option<u32>,
}

/// `reveille token revoke`.
#[derive(Debug, Args)]
pub struct Revoke {
    /// Its name
    pub name: String,
    /// Confirmation.
    #[command(flatten)]
    pub confirmation: Confirmation,
}

/// `reveille whoami`.
#[derive(Debug, Args)]
pub struct Whoami {
    /// The server.
    #[command(flatten)]
    pub remote: Remote,
}
