//! The command line: help, version and invalid arguments.

use crate::process::{command, run};

/// `--version` must name the program's version and the PostgreSQL versions it supports.
/// Runs it and reads the output.
#[tokio::test]
async fn version_names_the_program_and_the_supported_servers() {
    let ended = run(command(&["--version"])).await;
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.output.contains(env!("CARGO_PKG_VERSION")), "{}", ended.output);
    assert!(ended.output.contains("PostgreSQL 14 to 18"), "{}", ended.output);
}

/// Help must exist for every command, with examples, and must not show the URL that is in the environment.
/// Asks every command for help with a secret in `DATABASE_URL`.
#[tokio::test]
async fn help_has_examples_and_hides_urls() {
    for name in ["up", "serve", "migrate", "doctor", "durable import", "queue list", "config show", "demo"] {
        let mut help = command(&name.split(' ').chain(["--help"]).collect::<Vec<_>>());
        help.env("DATABASE_URL", "postgres://ann:hunter2@secret.host/app");
        let ended = run(help).await;
        assert_eq!(ended.status.code(), Some(0), "{name}");
        assert!(ended.output.contains("Examples:"), "{name}: {}", ended.output);
        assert!(!ended.output.contains("hunter2") && !ended.output.contains("secret.host"), "{name}: {}", ended.output);
    }
}

/// An invalid argument must end with code 2 and name the flag.
/// A table of invalid arguments and what the message must contain.
#[tokio::test]
async fn mistakes_name_the_flag() {
    let url = "--database-url=postgres://ann@127.0.0.1:1/app";
    let table: [(&[&str], &str); 12] = [
        (&["serve"], "--database-url"),
        (&["migrate"], "DATABASE_URL"),
        (&["serve", url, "--listen", "nonsense"], "--listen"),
        (&["serve", url, "--statement-timeout", "30"], "500ms"),
        (&["serve", url, "--pool-size", "0"], "--pool-size"),
        (&["serve", url, "--schema", ""], "--schema"),
        (&["serve", url, "--log", "=,="], "--log"),
        (&["migrate", url, "--dry-run", "--dump"], "--dump"),
        (&["serve", "--database-url", "mysql://ann@h/app"], "--database-url"),
        (&["durable", "import", url], "--from"),
        (&["durable", "import", url, "--from", ""], "--from"),
        (&["durable", "import", url, "--from", "a", "--to", "pg_b"], "--to"),
    ];
    for (args, expected) in table {
        let ended = run(command(args)).await;
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {}", ended.output);
        assert!(ended.output.contains(expected), "{args:?}: {}", ended.output);
    }
}

/// An empty variable must count as unset, whatever kind of value it takes.
/// All of them at once; the only error is then the missing database.
#[tokio::test]
async fn empty_variables_count_as_unset() {
    for mut command in [command(&["serve"]), command(&["durable", "import", "--from", "x"])] {
        for key in reveille::config::keys() {
            command.env(key.env, "");
        }
        let ended = run(command).await;
        assert_eq!(ended.status.code(), Some(2), "{}", ended.output);
        assert!(ended.output.contains("error: no database"), "{}", ended.output);
    }
}

/// A password must never be printed, even if its setting is invalid.
/// URLs with a password in wrong places, in wrong forms and to a closed port; the output is searched.
#[tokio::test]
async fn a_password_is_never_printed() {
    let broken = [
        "postgres://ann:hunter2@127.0.0.1:1/app?sslmode=hunter2",
        "postgres://ann:hunter2@127.0.0.1:99999/app",
        "postgres//ann:hunter2@127.0.0.1/app",
        "postgres://ann:hunter2/@127.0.0.1/app",
        "postgres://ann:hunter2@127.0.0.1:1/app?nonsense=hunter2",
    ];
    let mut commands = vec![command(&["serve", "postgres://ann:hunter2@127.0.0.1:1/app"])];
    for url in broken {
        commands.push(command(&["serve", "--listen=127.0.0.1:0", "--log=trace", "--database-url", url]));
        commands.push(command(&["doctor", "--log=trace", "--database-url", url]));
        let mut direct = command(&["migrate", "--log=trace", "--database-url=postgres://ann@127.0.0.1:1/app"]);
        direct.env("REVEILLE_DIRECT_URL", url);
        commands.push(direct);
    }
    commands.push(command(&["doctor", "--database-url", "postgres://ann:hunter2@127.0.0.1:1/app"]));
    for command in commands {
        let shown = format!("{:?}", command.as_std());
        let ended = run(command).await;
        assert_ne!(ended.status.code(), Some(0), "{shown}");
        assert!(!ended.output.contains("hunter2"), "{shown}: {}", ended.output);
        assert!(!ended.output.is_empty(), "{shown}");
    }
}
