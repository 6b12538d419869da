use std::ffi::OsString;

use super::*;

/// The parser's own consistency check: duplicate flags, impossible groups, defaults that do not parse.
#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

/// Each setting is listed once with a help text, and `--help` never prints the value of a secret variable.
#[test]
fn every_setting_is_listed_once_and_has_help() {
    let (cli, keys) = (Cli::command(), keys());
    for other in source::arguments(&cli).into_iter().filter_map(document::key) {
        assert!(keys.contains(&other), "{} has two definitions: {other:?}", other.flag);
    }
    for key in &keys {
        assert!(!key.about.is_empty(), "{} has no help text", key.flag);
    }
    for (flag, env) in [("--database-url", "DATABASE_URL"), ("--listen", "REVEILLE_LISTEN"), ("--log", "RUST_LOG")] {
        assert!(keys.iter().any(|key| key.flag == flag && key.env == env), "{flag} is missing");
    }
    for arg in source::arguments(&cli).into_iter().filter(|arg| may_hold_a_secret(arg)) {
        assert!(arg.is_hide_env_values_set(), "--help would print {}", arg.get_id());
    }
}

/// `config show` must show every setting: its flags are those of all commands together.
#[test]
fn config_show_has_every_setting() {
    let cli = Cli::try_parse_from(["reveille", "config", "show"]);
    assert!(cli.is_ok(), "{cli:?}");
    let command = Cli::command();
    let show = command.find_subcommand("config").and_then(|config| config.find_subcommand("show")).expect("it exists");
    let shown: Vec<_> = show.get_arguments().chain(command.get_arguments()).filter_map(source::name).collect();
    for key in keys() {
        let name = key.flag.trim_start_matches('-');
        assert!(shown.contains(&name), "`config show` lacks {name}: flatten its struct into ConfigShow");
    }
}

/// Commands that are complete without an argument.
const WITHOUT_EXAMPLES: &[&str] = &["down"];

fn check_examples(command: &clap::Command, path: &str) {
    for sub in command.get_subcommands() {
        let path = format!("{path} {}", sub.get_name()).trim().to_owned();
        if sub.has_subcommands() {
            check_examples(sub, &path);
        } else if !WITHOUT_EXAMPLES.contains(&path.as_str()) {
            let examples = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            let line = format!("  reveille {path}");
            assert!(examples.starts_with("Examples:\n") && examples.contains(&line), "{path}: {examples}");
            let is_wide = |line: &&str| line.chars().count() > 120;
            assert_eq!(examples.lines().find(is_wide), None, "{path}: an example is too wide");
        }
    }
}

/// The help of every command must have an example of that command.
#[test]
fn every_command_has_examples() {
    check_examples(&Cli::command(), "");
}

/// Whether a flag takes a URL or a key.
fn may_hold_a_secret(arg: &clap::Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|name| ["URL", "KEY", "KEYS"].contains(&name.as_str())))
}

/// The settings of the queue must become its options, and the error for an invalid key must not quote it.
#[test]
fn settings_of_the_queue_become_its_options() {
    let queue = |flags: &[&str]| {
        let cli = Cli::parse_from(["reveille", "serve"].iter().chain(flags));
        assert!(!format!("{cli:?}").contains("hunter2"));
        let Command::Serve(serve) = cli.command else { panic!("serve was asked for") };
        serve.queue.options()
    };
    let default = queue(&[]).expect("the defaults");
    let wake = reveille_wake::Options::default();
    assert_eq!(default.wake.max_waiters, wake.max_waiters);
    assert_eq!(default.wake.aggressive_poll_interval, wake.aggressive_poll_interval);
    assert_eq!(default.wake.concurrent_polls, wake.concurrent_polls);
    assert!(default.wake.wake_ups_first && default.encryption_keys.is_empty());

    let key = format!("--queue-encryption-key={}", "0f".repeat(32));
    let more = ["--queue-max-waiters=5", "--poll-worker-count=2", "--poll-interval-ms=70"];
    let set = queue(&[more.as_slice(), &["--use-priority-dispatch=false", &key]].concat()).expect("settings");
    assert_eq!((set.wake.max_waiters, set.wake.concurrent_polls, set.wake.wake_ups_first), (5, 2, false));
    assert_eq!(set.wake.aggressive_poll_interval, Duration::from_millis(70));
    assert_eq!(set.encryption_keys, [[0x0f; 32]]);

    let wrong = queue(&["--queue-encryption-key=hunter2"]).err().expect("no key").explain();
    assert!(wrong.contains("--queue-encryption-key") && wrong.contains("64") && !wrong.contains("hunter2"), "{wrong}");
}

/// A timeout of zero means no limit, an empty URL counts as unset, and `Debug` of the settings reveals no password.
#[test]
fn database_settings_become_pool_options() {
    let cli = Cli::parse_from([
        "reveille",
        "serve",
        "--database-url=postgres://ann:hunter2@h/db",
        "--direct-url= ",
        "--statement-timeout=0",
        "--lock-timeout=500ms",
        "--pool-size=3",
        "--pooler",
    ]);
    assert!(!format!("{cli:?}").contains("hunter2"));
    let Command::Serve(serve) = cli.command else { panic!("serve was asked for") };
    assert!(serve.database.url().is_some());
    assert!(serve.database.direct_url().is_none());
    let options = serve.database.options();
    assert_eq!(options.statement_timeout, None);
    assert_eq!(options.lock_timeout, Some(Duration::from_millis(500)));
    assert_eq!(options.max_connections, 3);
    assert!(options.pooler);
    assert_eq!(options.listen_url, None);
}

/// The default data directory by user and environment, as a table.
#[test]
#[cfg(not(target_os = "macos"))]
fn the_default_data_directory_follows_the_user() {
    let table = [
        (true, Some("/home/ann"), None, Some("/var/lib/reveille")),
        (false, Some("/home/ann"), None, Some("/home/ann/.local/share/reveille")),
        (false, Some("/home/ann"), Some("/data"), Some("/data/reveille")),
        (false, Some("/home/ann"), Some("relative"), Some("/home/ann/.local/share/reveille")),
        (false, None, Some("/data"), Some("/data/reveille")),
        (false, None, None, None),
    ];
    for (root, home, xdg, expected) in table {
        let variable = |name: &str| match name {
            "HOME" => home.map(OsString::from),
            "XDG_DATA_HOME" => xdg.map(OsString::from),
            other => panic!("{other} is not a data directory"),
        };
        let found = default_data_dir(root, variable);
        assert_eq!(found, expected.map(PathBuf::from), "root {root}, home {home:?}, xdg {xdg:?}");
    }
}
