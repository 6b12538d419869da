//! The Prometheus alerts of `deploy`.

use std::path::Path;

use tokio::process::Command;

use crate::statistics::promtool;

/// promtool must accept the alerts, and each must be silent before its time and fire then.
/// The cases are in `deploy/alerts_test.yaml`.
#[tokio::test]
async fn every_alert_fires_when_it_should() {
    let Some(promtool) = promtool() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    for args in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]] {
        let ended = Command::new(&promtool).args(args).current_dir(&folder).output().await.expect("promtool runs");
        let output = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && output.contains("SUCCESS"), "{args:?}: {output}");
    }
}
