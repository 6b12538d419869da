//! Every validation function of duroxide, with and without waiting.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::provider_validations::ProviderFactory;
use duroxide::providers::Provider;
use reveille_durable_memory::validation::CALLED;
use reveille_durable_memory::{MemoryProvider, Polling};

/// Gives out an empty provider each time, and remembers the last for the functions that look into it.
struct Factory {
    polling: Polling,
    last: Mutex<Option<MemoryProvider>>,
}

impl Factory {
    fn new(polling: Polling) -> Self {
        Self { polling, last: Mutex::new(None) }
    }

    fn last(&self) -> MemoryProvider {
        self.last.lock().expect("nothing panics with it").clone().expect("a provider was given out")
    }
}

/// Long enough for a busy machine to ack in time, short enough to wait for its end.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

#[async_trait::async_trait]
impl ProviderFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let provider = MemoryProvider::new(self.polling);
        *self.last.lock().expect("nothing panics with it") = Some(provider.clone());
        Arc::new(provider)
    }

    fn lock_timeout(&self) -> Duration {
        LOCK_TIMEOUT
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        self.last().overwrite_history(instance, "not an event");
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        self.last().max_attempts(instance)
    }
}

reveille_durable_memory::validations!(waiting, long, Factory::new(Polling::Long));
reveille_durable_memory::validations!(not_waiting, short, Factory::new(Polling::Short));

/// A validation function that duroxide has and no test calls would make the suite green and the provider unproven.
/// Reads the names of the suite's public functions from duroxide's own source, and compares.
#[test]
fn every_function_of_the_suite_is_called() {
    let folder = duroxide_source().join("src/provider_validation");
    let mut offered = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).expect("duroxide has a validation suite") {
        let path = entry.expect("the folder can be read").path();
        let module = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("the suite can be read");
        let names = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
        let names = names.map(|rest| rest.split(['<', '(']).next().expect("a split has a first part"));
        offered.extend(names.map(|name| (module.clone(), name.to_owned())));
    }
    let called: BTreeSet<_> = CALLED.iter().map(|(module, name)| (module.to_string(), name.to_string())).collect();
    assert!(offered.len() > 200, "only {} functions found in {}: is this the suite?", offered.len(), folder.display());
    assert_eq!(called.len(), CALLED.len(), "a function is listed twice");
    let missing: Vec<_> = offered.difference(&called).collect();
    assert!(missing.is_empty(), "add to the list in validation.rs: {missing:?}");
    let gone: Vec<_> = called.difference(&offered).collect();
    assert!(gone.is_empty(), "remove from the list in validation.rs: {gone:?}");
}

/// Where cargo has the source of the duroxide that these tests are built with.
fn duroxide_source() -> PathBuf {
    // What only other machines need has not been downloaded.
    let about = Command::new(env!("CARGO")).arg("-vV").output().expect("cargo runs");
    let about = String::from_utf8(about.stdout).expect("cargo writes text");
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo says where it runs");
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&cargo.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    let duroxide = packages.iter().find(|package| package["name"] == "duroxide").expect("duroxide is a dependency");
    let manifest = PathBuf::from(duroxide["manifest_path"].as_str().expect("a package has a manifest"));
    manifest.parent().expect("a manifest is in a folder").to_owned()
}
