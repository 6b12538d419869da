//! Dependencies point one way, versions are written once, and every crate keeps the workspace's promises.
//!
//! `pg ← wake ← web ← durable, queue, flow ← reveille`. What points the other way, or from product to product, makes two crates
//! that can only be understood, tested and used together.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::repository::{File, Offence, file, files, places, report, root};

/// Who may depend on whom, and why no further. A package that is not here has no place in the house yet.
const PLACES: &[Place] = &[
    Place { package: "reveille-pg", below: &[], because: "it knows servers and nothing of work" },
    Place { package: "reveille-wake", below: &["reveille-pg"], because: "it knows when to look and no tables" },
    Place { package: "reveille-web", below: ENGINE, because: "it knows what errors mean to a client and no tables" },
    Place { package: "reveille-access", below: SHOWN, because: "it knows clients and no product" },
    Place { package: "reveille-durable", below: SHOWN, because: "products do not know each other" },
    Place { package: "reveille-durable-memory", below: &[], because: "it is what providers are compared with" },
    Place { package: "reveille-queue", below: SHOWN, because: "products do not know each other" },
    Place { package: "reveille-flow", below: SHOWN, because: "products do not know each other" },
    Place { package: "reveille-console", below: SHOWN, because: "it is a client of the HTTP API and knows no product" },
    Place { package: "reveille", below: EVERYTHING, because: "nothing is above it but measurements" },
    Place { package: "reveille-bench-traffic", below: &[], because: "it knows no queue but by a trait" },
    Place {
        package: "reveille-bench-tasks",
        below: &["reveille-bench-traffic"],
        because: "it knows no task engine but by a trait",
    },
    Place { package: "reveille-bench-workloads", below: MODEL, because: "it knows duroxide and the model" },
    Place { package: "reveille-bench", below: MEASURED, because: "nobody depends on measurements" },
    Place { package: "reveille-chaos", below: EVERYTHING, because: "nobody depends on measurements" },
];
const ENGINE: &[&str] = &["reveille-pg", "reveille-wake"];
const SHOWN: &[&str] = &["reveille-pg", "reveille-wake", "reveille-web"];
const EVERYTHING: &[&str] = &[
    "reveille-pg",
    "reveille-wake",
    "reveille-web",
    "reveille-access",
    "reveille-durable",
    "reveille-queue",
    "reveille-flow",
    "reveille-console",
];
const MODEL: &[&str] = &["reveille-durable-memory"];
const MEASURED: &[&str] = &[
    "reveille-pg",
    "reveille-wake",
    "reveille-durable",
    "reveille-queue",
    "reveille-flow",
    "reveille-durable-memory",
    "reveille-bench-traffic",
    "reveille-bench-tasks",
    "reveille-bench-workloads",
];

/// What tests may use beyond it: the model that the provider is compared with.
const TESTED_WITH: &[(&str, &str)] = &[("reveille-durable", "reveille-durable-memory")];

/// What may be in the tree only once: two versions of sqlx cannot share a pool or a transaction.
const ONCE: &[&str] = &["sqlx", "sqlx-core", "sqlx-postgres"];

/// Products that programs embed as libraries. Without the feature `http` they build no web server.
const EMBEDDED: &[&str] = &["reveille-durable", "reveille-queue", "reveille-flow", "reveille-web"];
/// The crates of a web server and its OpenAPI document; a name that begins with one of these counts, too.
const WEB_SERVER: &[&str] = &["axum", "hyper", "tower", "utoipa"];

const LICENSE: &str = "Apache-2.0 OR MIT";

struct Place {
    package: &'static str,
    below: &'static [&'static str],
    because: &'static str,
}

/// Every package, its licence and what it depends on within the workspace.
struct Package {
    name: String,
    license: String,
    uses: Vec<Use>,
}

struct Use {
    name: String,
    /// By its tests alone.
    in_tests: bool,
}

fn packages(metadata: &Value) -> Vec<Package> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let package = |package: &Value| Package {
        name: text(&package["name"]),
        license: text(&package["license"]),
        uses: list(&package["dependencies"])
            .iter()
            .filter(|used| used["path"].is_string())
            .map(|used| Use { name: text(&used["name"]), in_tests: used["kind"] == "dev" })
            .collect(),
    };
    list(&metadata["packages"]).iter().map(package).collect()
}

fn arrows(packages: &[Package]) -> Vec<Offence> {
    let offence = |what| Offence { path: "Cargo.toml".into(), line: 1, what };
    let mut offences = Vec::new();
    for Package { name, license, uses } in packages {
        if license != LICENSE {
            offences.push(offence(format!("{name} is under `{license}`: write `license.workspace = true`")));
        }
        let Some(place) = PLACES.iter().find(|place| place.package == name) else {
            offences.push(offence(format!("{name} has no place: add it to PLACES, with what it may use and why")));
            continue;
        };
        for Use { name: used, in_tests } in uses {
            let tested_with = *in_tests && TESTED_WITH.contains(&(name, used));
            // A crate uses itself to have its own test features.
            if used != name && !tested_with && !place.below.contains(&used.as_str()) {
                offences.push(offence(format!("{name} uses {used}, and must not: {}", place.because)));
            }
        }
    }
    offences
}

/// The crates of a web server in the output of `cargo tree --prefix none`.
fn web_server(package: &str, tree: &str) -> Vec<Offence> {
    let is_part = |name: &&str| WEB_SERVER.iter().any(|part| name.split('-').next() == Some(*part));
    let names: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split_whitespace().next()).filter(is_part).collect();
    let what =
        |name| format!("{package} without `http` depends on {name}: make it `optional` and part of that feature");
    names.into_iter().map(|name| Offence { path: "Cargo.toml".into(), line: 1, what: what(name) }).collect()
}

fn twice(lock: &File) -> Vec<Offence> {
    let mut offences = Vec::new();
    for name in ONCE {
        let line = format!("name = \"{name}\"");
        let found = lock.lines().filter(|(_, text)| *text == line);
        offences.extend(found.skip(1).map(|(at, _)| {
            lock.offence(
                at,
                format!("a second version of {name}: change who asks for it, one pool must serve everybody"),
            )
        }));
    }
    offences
}

/// A crate's own manifest: lints and versions come from the root.
fn manifest(manifest: &File) -> Vec<Offence> {
    let mut offences = Vec::new();
    let mut section = "";
    let mut lints = false;
    for (at, line) in manifest.lines().map(|(at, line)| (at, line.trim())) {
        if line.starts_with('[') {
            section = line;
        } else if section == "[lints]" {
            lints |= line == "workspace = true";
        } else if section.ends_with("dependencies]") && line.contains('=') && !line.starts_with('#') {
            // A crate that enables its own features for its tests names itself by path: with a version, cargo could not
            // publish it.
            let itself = line.contains("{ path = \".\", ");
            let inherited = line.contains(".workspace = true") || line.contains("workspace = true,") || itself;
            if !inherited {
                offences.push(
                    manifest.offence(at, "a version of its own: name it in the root and write `workspace = true`"),
                );
            }
        }
    }
    if !lints {
        offences.push(manifest.offence(1, "the workspace's lints do not apply: add `[lints]` with `workspace = true`"));
    }
    offences
}

/// The root: what every crate inherits.
fn promises(root: &File) -> Vec<Offence> {
    ["unsafe_code = \"forbid\"", "missing_docs = \"warn\"", "license = \"Apache-2.0 OR MIT\""]
        .into_iter()
        .filter(|promise| !root.text.lines().any(|line| line == *promise))
        .map(|promise| root.offence(1, format!("`{promise}` is gone: put it back")))
        .collect()
}

/// The dependencies of every package, as cargo itself sees them, against the table.
#[test]
fn dependencies_point_one_way() {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let metadata = serde_json::from_slice(&cargo.stdout).expect("cargo metadata is JSON");
    let packages = packages(&metadata);
    assert!(packages.len() >= 4, "cargo metadata lists the workspace");
    report(arrows(&packages));
}

/// The dependencies of the products without features, as cargo resolves them, contain no web server. The binary is the
/// counter-check: it has one.
#[test]
fn embedded_products_have_no_web_server() {
    let tree = |package: &str| {
        let cargo = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "--package", package, "--edges", "normal,build"])
            .args(["--no-default-features", "--prefix", "none", "--format", "{p}"])
            .current_dir(root())
            .output()
            .expect("cargo runs");
        assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
        String::from_utf8(cargo.stdout).expect("names are UTF-8")
    };
    assert!(!web_server("reveille", &tree("reveille")).is_empty(), "the binary serves HTTP");
    report(EMBEDDED.iter().flat_map(|package| web_server(package, &tree(package))).collect());
}

/// The lock file has one sqlx.
#[test]
fn one_sqlx_in_the_tree() {
    report(twice(file("Cargo.lock")));
}

/// Every manifest takes lints and versions from the root, and the root still has them.
#[test]
fn versions_and_lints_are_written_once() {
    // One with a workspace of its own is a root itself.
    let is_root = |file: &File| file.text.lines().any(|line| line == "[workspace]");
    let manifests = files().iter().filter(|file| file.name() == "Cargo.toml" && !is_root(file));
    let offences = manifests.flat_map(manifest);
    report(offences.chain(promises(file("Cargo.toml"))).collect());
}

/// A made-up workspace with an arrow upwards, one between products, an unknown package, a wrong licence, and a model that is used by more
/// than tests.
#[test]
fn a_wrong_arrow_is_an_offence() {
    let metadata = serde_json::json!({ "packages": [
        { "name": "reveille-pg", "license": LICENSE, "dependencies": [
            { "name": "reveille-pg", "path": "x" }, { "name": "reveille-wake", "path": "x" }, { "name": "sqlx" } ] },
        { "name": "reveille-queue", "license": LICENSE, "dependencies": [
            { "name": "reveille-wake", "path": "x" }, { "name": "reveille-flow", "path": "x" } ] },
        { "name": "reveille-misc", "license": LICENSE, "dependencies": [] },
        { "name": "reveille-wake", "license": "MIT", "dependencies": [{ "name": "reveille-pg", "path": "x" }] },
        { "name": "reveille-durable", "license": LICENSE, "dependencies": [
            { "name": "reveille-durable-memory", "path": "x", "kind": "dev" },
            { "name": "reveille-durable-memory", "path": "x", "kind": null } ] },
    ] });
    let what: Vec<String> = arrows(&packages(&metadata)).into_iter().map(|offence| offence.what).collect();
    assert_eq!(what.len(), 5, "{what:?}");
    assert!(what[0].contains("reveille-pg uses reveille-wake"));
    assert!(what[1].contains("reveille-queue uses reveille-flow"));
    assert!(what[2].contains("reveille-misc has no place"));
    assert!(what[3].contains("reveille-wake is under `MIT`"));
    assert!(what[4].contains("reveille-durable uses reveille-durable-memory"));
}

/// Made-up trees with and without the crates of a web server.
#[test]
fn a_web_server_in_a_library_is_an_offence() {
    let tree = "reveille-queue v0.1.0 (/x)\naxum v0.8.1\ntower-http v0.6.0\naxum v0.8.1 (*)\nhttparse v1.0.0\n";
    assert_eq!(web_server("reveille-queue", tree).len(), 2);
    assert_eq!(web_server("reveille-queue", "reveille-queue v0.1.0 (/x)\nsqlx v0.9.0\n"), []);
}

/// A second version in the lock file, at its line; other packages may come twice.
#[test]
fn a_second_sqlx_is_an_offence() {
    let lock = File::new("Cargo.lock", "name = \"sqlx\"\nname = \"rand\"\nname = \"rand\"\nname = \"sqlx\"\n");
    assert_eq!(places(&twice(&lock)), [("Cargo.lock", 4)]);
}

/// A manifest with a version of its own and without lints, and a root that allows unsafe code.
#[test]
fn a_manifest_on_its_own_is_an_offence() {
    let own =
        File::new("a/Cargo.toml", "[package]\nname = \"a\"\n[dependencies]\nserde = \"1\"\nsqlx.workspace = true\n");
    assert_eq!(places(&manifest(&own)), [("a/Cargo.toml", 4), ("a/Cargo.toml", 1)]);
    let good = "[dependencies]\npg = { workspace = true, features = [\"testing\"] }\n[lints]\nworkspace = true\n";
    assert_eq!(manifest(&File::new("b/Cargo.toml", good)), []);
    let unsafe_root = "missing_docs = \"warn\"\nlicense = \"Apache-2.0 OR MIT\"\nunsafe_code = \"allow\"\n";
    assert_eq!(places(&promises(&File::new("Cargo.toml", unsafe_root))), [("Cargo.toml", 1)]);
}
