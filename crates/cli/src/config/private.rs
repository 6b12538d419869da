//! The commands on the private PostgreSQL of `up`.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::Embedded;

pub(super) const PSQL_EXAMPLES: &str = "\
Examples:
  reveille psql                             a shell on the PostgreSQL of the default data directory
  reveille psql -c 'select count(*) from reveille.migration'
                                            further arguments are passed to psql";

/// `reveille down`.
#[derive(Debug, Args)]
pub struct Down {
    /// The private PostgreSQL.
    #[command(flatten)]
    pub embedded: Embedded,
}

/// `reveille psql`.
#[derive(Debug, Args)]
pub struct Psql {
    /// The private PostgreSQL.
    #[command(flatten)]
    pub embedded: Embedded,
    /// Arguments of psql, such as `-c 'select 1'`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub args: Vec<OsString>,
}

/// Whether this process runs as root. A system without `id` counts as "no".
pub(crate) fn is_root() -> bool {
    std::process::Command::new("id").arg("-u").output().is_ok_and(|it| it.stdout.trim_ascii() == b"0")
}

/// The default data directory: `/var/lib` for root, because other users (PostgreSQL's among them) cannot enter root's
/// home; else the user's data home. `None` if the environment names no home.
pub(super) fn default_data_dir(root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if root {
        return Some(PathBuf::from("/var/lib/reveille"));
    }
    let home = || variable("HOME").map(PathBuf::from);
    let data_home = if cfg!(target_os = "macos") {
        home()?.join("Library/Application Support")
    } else {
        // The XDG specification requires relative paths to be ignored.
        match variable("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute()) {
            Some(path) => path,
            None => home()?.join(".local/share"),
        }
    };
    Some(data_home.join("reveille"))
}
