//! What a private server is asked to be, and the configuration file that says so.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Installation;

/// How long a start may take before it is reported as still starting. Recovery after a crash replays the log since
/// the last checkpoint, which the default settings keep near a minute.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// How to make and run a [`Cluster`](super::Cluster).
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory that holds everything of this server: data, password, log. Made if it does not exist; must
    /// otherwise be empty or made by an earlier start.
    pub data_dir: PathBuf,
    /// The programs to use; an error if the data is of another major version. `None`: those that match the data, or, if
    /// there is none yet, the newest on this machine.
    pub installation: Option<Installation>,
    /// The port on 127.0.0.1. `None`: the one of the last start if it is still free, or else a free one.
    pub port: Option<u16>,
    /// The database to create and connect to: `reveille`.
    pub database: String,
    /// Whether a commit survives a power failure: true. `false` is for tests, which make their data anew.
    pub durable: bool,
    /// Further lines of `postgresql.conf`; they win over those that are written by default.
    pub extra: Vec<(String, String)>,
    /// How long to wait for the server to accept connections: two minutes.
    pub start_timeout: Duration,
}

impl Settings {
    /// The usual settings for a server in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Settings {
        Settings {
            data_dir: data_dir.into(),
            installation: None,
            port: None,
            database: "reveille".to_owned(),
            durable: true,
            extra: Vec::new(),
            start_timeout: START_TIMEOUT,
        }
    }

    /// Renders the configuration file of one start.
    pub(super) fn render(&self, port: u16, socket_dir: &Path, statistics: bool) -> String {
        let mut lines = vec![
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("port", port.to_string()),
            ("unix_socket_directories", socket_dir.to_string_lossy().into_owned()),
            ("unix_socket_permissions", "0700".to_owned()),
            ("lc_messages", "C".to_owned()),
            ("log_line_prefix", "%m [%p] %q%u@%d %a ".to_owned()),
            ("logging_collector", "off".to_owned()),
        ];
        if statistics {
            lines.push(("shared_preload_libraries", "pg_stat_statements".to_owned()));
        }
        if !self.durable {
            lines.extend(["fsync", "full_page_writes"].map(|name| (name, "off".to_owned())));
        }
        let mut text = String::from("# Written at every start. Settings of your own belong in postgresql.conf.\n");
        let extra = self.extra.iter().map(|(name, value)| (name.as_str(), value.clone()));
        for (name, value) in lines.into_iter().chain(extra) {
            let value = value.replace('\\', "\\\\").replace('\'', "''");
            writeln!(text, "{name} = '{value}'").expect("writing to a string does not fail");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value may hold quotes and backslashes, and a caller's line comes last, where PostgreSQL lets it win.
    /// Read from the rendered text.
    #[test]
    fn values_are_quoted_and_the_callers_lines_come_last() {
        let mut settings = Settings::new("/nowhere");
        settings.extra = vec![("port".into(), "1".into()), ("cluster_name".into(), r"o'b\c".into())];
        let text = settings.render(5432, Path::new("/tmp/s"), false);
        assert!(text.ends_with("port = '1'\ncluster_name = 'o''b\\\\c'\n"), "{text}");
        assert!(!text.contains("pg_stat_statements"));
        assert!(!text.contains("fsync"), "durable unless asked otherwise");
    }
}
