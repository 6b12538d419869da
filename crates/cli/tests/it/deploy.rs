//! The files of `deploy`: the alerts, and the settings in manifests.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::{process::command, statistics::promtool};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// promtool must accept the alerts, and each must be silent before its time and fire then.
/// The cases are in `deploy/alerts_test.yaml`.
#[tokio::test]
async fn every_alert_fires_when_it_should() {
    let Some(promtool) = promtool() else { return };
    for args in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]] {
        let ended = Command::new(&promtool).args(args).current_dir(folder()).output().await.expect("promtool runs");
        let output = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && output.contains("SUCCESS"), "{args:?}: {output}");
    }
}

/// The configuration file of the Kubernetes manifest, and the environment of the compose file, must be valid for this
/// binary. `config show` reads both; their addresses must be the ones that the manifests publish.
#[tokio::test]
async fn settings_of_manifests_are_valid() {
    let manifest = read("kubernetes.yaml");
    let (_, rest) = manifest.split_once("reveille.toml: |\n").expect("the configuration file");
    let file: String = rest.lines().map_while(|line| line.strip_prefix("    ")).flat_map(|line| [line, "\n"]).collect();
    let path = std::env::temp_dir().join(format!("reveille-kubernetes-{}.toml", std::process::id()));
    std::fs::write(&path, file).expect("written");
    let mut kubernetes = command(&["config", "show", "--config", path.to_str().expect("a plain path")]);
    kubernetes.env("DATABASE_URL", "postgres://reveille@db/reveille");

    let compose = read("compose.yaml");
    let (_, rest) = compose.split_once("      DATABASE_URL: ").expect("the environment");
    let (environment, _) = rest.split_once("    ports:").expect("its end");
    let mut composed = command(&["config", "show"]);
    for line in environment.lines().skip(1) {
        if let Some((name, value)) = line.trim().split_once(": ").filter(|(name, _)| !name.starts_with('#')) {
            composed.env(name, value.trim_matches('"'));
        }
    }
    for mut command in [kubernetes, composed] {
        let ended = command.output().await.expect("it ran");
        let shown = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        assert!(shown.contains("0.0.0.0:6632") && shown.contains("0.0.0.0:6633"), "{shown}");
    }
    std::fs::remove_file(path).expect("removed");
}

/// systemd must accept the unit, and count it among those with little exposure.
/// `systemd-analyze`, if it is installed; the program of the unit need not be.
#[tokio::test]
async fn systemd_accepts_the_unit() {
    let analyze = async |args: &[&str]| {
        let ended = Command::new("systemd-analyze").args(args).arg(folder().join("reveille.service")).output().await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ended.ok().map(|ended| text(&ended.stdout) + &text(&ended.stderr))
    };
    let Some(verified) = analyze(&["verify"]).await else {
        return reveille_pg::testing::skip::<()>("systemd-analyze, to check the unit").unwrap_or_default();
    };
    let is_expected = |line: &str| line.contains("is not executable") || line.trim().is_empty();
    assert!(verified.lines().all(is_expected), "{verified}");
    if let Some(exposure) = analyze(&["security", "--offline=true", "--threshold=20"]).await {
        assert!(exposure.contains("OK"), "{exposure}");
    }
}
