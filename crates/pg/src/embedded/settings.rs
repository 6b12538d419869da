//! Settings of a private server, and its configuration file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Installation;

/// How long a start may take before [`StillStarting`](super::Error::StillStarting). Crash recovery replays the log
/// since the last checkpoint, which takes about a minute with the default settings.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Settings of a [`Cluster`](super::Cluster).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The directory of this server: data, password, log. Created if it does not exist; otherwise it must be empty or
    /// created by an earlier start.
    pub data_dir: PathBuf,
    /// The programs to use; must match the major version of existing data. `None`: those that match the data, or,
    /// without data, the newest on this machine.
    pub installation: Option<Installation>,
    /// The port on 127.0.0.1. `None`: the one of the last start if it is free, or else a free one.
    pub port: Option<u16>,
    /// The database to create and connect to. Default `reveille`.
    pub database: String,
    /// Whether a commit survives a power failure. Default true; `false` is for tests.
    pub durable: bool,
    /// Additional lines of `postgresql.conf`; they override the defaults.
    pub extra: Vec<(String, String)>,
    /// How long to wait for the server to accept connections. Default two minutes.
    pub start_timeout: Duration,
}

impl Settings {
    /// The default settings for a server in `data_dir`.
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

    /// Sets the programs to use.
    pub fn installation(mut self, installation: Installation) -> Settings {
        self.installation = Some(installation);
        self
    }

    /// Sets the port on 127.0.0.1.
    pub fn port(mut self, port: u16) -> Settings {
        self.port = Some(port);
        self
    }

    /// Sets the database to create and connect to.
    pub fn database(mut self, name: impl Into<String>) -> Settings {
        self.database = name.into();
        self
    }

    /// Sets whether a commit survives a power failure.
    pub fn durable(mut self, durable: bool) -> Settings {
        self.durable = durable;
        self
    }

    /// Sets the additional lines of `postgresql.conf`.
    pub fn extra(mut self, lines: Vec<(String, String)>) -> Settings {
        self.extra = lines;
        self
    }

    /// Sets how long to wait for the server to accept connections.
    pub fn start_timeout(mut self, timeout: Duration) -> Settings {
        self.start_timeout = timeout;
        self
    }

    /// Renders the configuration file for one start.
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
        let mut text = String::from("# Overwritten at every start. Put your own settings in postgresql.conf.\n");
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

    /// A value may contain quotes and backslashes, and the caller's lines come last, so that they override the others.
    /// Checks the rendered text.
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
