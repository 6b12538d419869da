//! The configuration file and `reveille config show`.

use std::{path::PathBuf, process::Output};

use serde_json::Value;

use crate::process::command;

/// A configuration file of its own. Dropping it removes it.
struct ConfigFile(PathBuf);

impl ConfigFile {
    fn new(name: &str, text: &str) -> ConfigFile {
        let path = std::env::temp_dir().join(format!("reveille-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).expect("written");
        ConfigFile(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn run(args: &[&str], variables: &[(&str, &str)]) -> Output {
    command(args).envs(variables.iter().copied()).output().await.expect("it ran")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A flag must override its variable, which overrides the file, which overrides the default; an empty variable counts
/// as unset. One setting of each kind, in `config show --json`.
#[tokio::test]
async fn a_flag_overrides_a_variable_overrides_the_file() {
    let file = ConfigFile::new(
        "layers",
        "# four settings\nlisten = '127.0.0.1:7001'\npool-size = 11\nlock-timeout = '1s'\nallowed-hosts = ['a.example', 'b.example']\n",
    );
    let variables =
        [("REVEILLE_CONFIG", file.path()), ("REVEILLE_POOL_SIZE", "12"), ("REVEILLE_LISTEN", "127.0.0.1:7002")];
    let also_empty = [variables.as_slice(), &[("REVEILLE_LOCK_TIMEOUT", "")]].concat();
    let ended = run(&["config", "show", "--json", "--listen", "127.0.0.1:7003"], &also_empty).await;
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let shown: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let setting = |name: &str| {
        let settings = shown["settings"].as_array().expect("a list");
        settings.iter().find(|setting| setting["name"] == name).unwrap_or_else(|| panic!("{name}: {shown}")).clone()
    };
    let value = |name: &str| (setting(name)["value"].clone(), setting(name)["source"].clone());
    assert_eq!(value("listen"), ("127.0.0.1:7003".into(), "flag".into()));
    assert_eq!(value("pool-size"), ("12".into(), "variable".into()));
    assert_eq!(setting("pool-size")["variable"], "REVEILLE_POOL_SIZE");
    assert_eq!(value("lock-timeout"), ("1s".into(), "file".into()));
    assert_eq!((&setting("lock-timeout")["file"], &setting("lock-timeout")["line"]), (&file.path().into(), &4.into()));
    assert_eq!(value("allowed-hosts"), ("a.example,b.example".into(), "file".into()));
    assert_eq!(value("statement-timeout"), ("30s".into(), "default".into()));
    assert_eq!(value("log"), ("info,sqlx=warn,duroxide=error".into(), "default".into()));
    assert_eq!(value("server"), ("http://127.0.0.1:6632".into(), "default".into()));
    assert_eq!(value("data-dir"), (Value::Null, "default".into()));

    let people = text(&run(&["config", "show"], &variables).await.stdout);
    assert!(people.contains(&format!("{}:4", file.path())), "{people}");
    assert!(people.contains("variable REVEILLE_LISTEN"), "{people}");
}

/// Settings of the file must have their effect on a command, and lists must be split.
/// A server with an address and host names from the file only, which then cannot reach its database.
#[tokio::test]
async fn the_file_has_the_effect_of_flags() {
    let file = ConfigFile::new("effect", "listen = '0.0.0.0:0'\npooler = false\n");
    let url = "--database-url=postgres://ann@127.0.0.1:1/app";
    let refused = run(&["serve", "--config", file.path(), url], &[]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("refusing to listen on 0.0.0.0:0"), "{refused:?}");
    // A flag of one command, in the file of all: `config show` checks it as `serve` does.
    let refused = run(&["config", "show", "--config", file.path()], &[]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let shown = run(&["config", "show", "--json", "--config", file.path(), "--allow-unauthenticated"], &[]).await;
    assert!(text(&shown.stdout).contains(r#"{"name":"pooler","value":"false","source":"file""#), "{shown:?}");
}

/// A mistake in the file must be an error for every command, with the line and the nearest name, and must not quote a
/// secret. Help must not depend on the file. A table of wrong files.
#[tokio::test]
async fn mistakes_in_the_file_have_their_line() {
    let table = [
        ("listen = '127.0.0.1:0'\npol-size = 1\n", ":2: ", "did you mean `pool-size`?"),
        ("# x\n\npool-size = 0\n", ":3: ", "1..=1000"),
        ("statement-timeout = 30\n", ":1: ", "500ms"),
        ("pooler = 'perhaps'\n", ":1: ", "--pooler"),
        ("log-format = 'xml'\n", ":1: ", "text, json"),
        ("database-url = 'postgres://ann:hunter2@h/db\n", ":1: ", "string"),
        ("DATABASE_URL = 'postgres://ann:hunter2@h/db'\n", ":1: ", "database-url"),
    ];
    for (at, (content, line, part)) in table.into_iter().enumerate() {
        let file = ConfigFile::new(&format!("mistake-{at}"), content);
        for args in [["config", "show"].as_slice(), &["queue", "list"], &["migrate", "--dump"]] {
            let ended = run(args, &[("REVEILLE_CONFIG", file.path())]).await;
            let error = text(&ended.stderr);
            assert_eq!(ended.status.code(), Some(2), "{content}: {error}");
            assert!(error.contains(&format!("{}{line}", file.path())) && error.contains(part), "{content}: {error}");
            assert!(!error.contains("hunter2") && ended.stdout.is_empty(), "{content}: {ended:?}");
        }
        let help = run(&["serve", "--help"], &[("REVEILLE_CONFIG", file.path())]).await;
        assert_eq!(help.status.code(), Some(0), "{help:?}");
    }
    let missing = run(&["config", "show", "--config", "no-such-file.toml"], &[]).await;
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(text(&missing.stderr).contains("no-such-file.toml"), "{missing:?}");
}

/// Secrets must be masked wherever they come from. One secret from a flag, a variable and the file each.
#[tokio::test]
async fn config_show_masks_secrets() {
    let key = "0f".repeat(32);
    let file = ConfigFile::new("secrets", &format!("queue-encryption-key = '{key}'\n"));
    let variables = [("REVEILLE_CONFIG", file.path()), ("DATABASE_URL", "postgres://ann:hunter2@db.example/app")];
    for json in [[].as_slice(), &["--json"]] {
        let args = [&["config", "show", "--direct-url", "postgres://bob:hunter2@direct.example/app"], json].concat();
        let ended = run(&args, &variables).await;
        let shown = text(&ended.stdout);
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        assert!(shown.contains("postgres://…@db.example/app"), "{shown}");
        assert!(shown.contains("postgres://…@direct.example/app"), "{shown}");
        assert!(!shown.contains("hunter2") && !shown.contains("0f0f") && !shown.contains("ann"), "{shown}");
        // It was written with the permissions of any new file.
        assert!(text(&ended.stderr).contains("chmod 600"), "{ended:?}");
    }
}
