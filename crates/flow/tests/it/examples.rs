//! The examples print what their documentation says.

use reveille_pg::testing::{TestDb, printed};

/// The examples; each has a template file.
const EXAMPLES: [&str; 6] = ["csv_import", "diamond", "linear", "nightly", "order_fulfilment", "tree"];

fn promised(name: &str) -> Vec<String> {
    reveille_pg::testing::promised(env!("CARGO_MANIFEST_DIR"), "reveille-flow", name)
}

/// The output of an example must be the documented one.
/// Runs each and compares the output exactly with the text at its top.
#[tokio::test]
async fn examples_print_the_documented_output() {
    let db = TestDb::new().await;
    for name in EXAMPLES {
        let said = promised(name);
        assert!(!said.is_empty(), "{name}");
        assert_eq!(printed(&db, name, &[]).await, said, "{name}");
    }
}

/// Every example is tested, and has a template.
/// Compares the folder with the list in this file.
#[test]
fn every_example_is_run() {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).expect("the folder");
    let mut names: Vec<_> = folder.filter_map(|file| file.expect("a file").file_name().into_string().ok()).collect();
    names.sort();
    let expected: Vec<String> =
        EXAMPLES.iter().flat_map(|name| [format!("{name}.rs"), format!("{name}.yaml")]).collect();
    assert_eq!(names, expected);
}
