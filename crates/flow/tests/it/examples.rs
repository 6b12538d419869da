//! The examples do what they say they print.

use reveille_pg::testing::{TestDb, printed};

/// Those there are; each has its template beside it.
const EXAMPLES: [&str; 6] = ["csv_import", "diamond", "linear", "nightly", "order_fulfilment", "tree"];

fn promised(name: &str) -> Vec<String> {
    reveille_pg::testing::promised(env!("CARGO_MANIFEST_DIR"), "reveille-flow", name)
}

/// A reader of the examples believes what they say they print.
/// Runs each and compares, to the letter, with the text at its top.
#[tokio::test]
async fn examples_print_what_they_say() {
    let db = TestDb::new().await;
    for name in EXAMPLES {
        let said = promised(name);
        assert!(!said.is_empty(), "{name}");
        assert_eq!(printed(&db, name, &[]).await, said, "{name}");
    }
}

/// No example is left out, and none is without its template.
/// Compares the folder with what the test of this file runs.
#[test]
fn every_example_is_run() {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).expect("the folder");
    let mut names: Vec<_> = folder.filter_map(|file| file.expect("a file").file_name().into_string().ok()).collect();
    names.sort();
    let expected: Vec<String> =
        EXAMPLES.iter().flat_map(|name| [format!("{name}.rs"), format!("{name}.yaml")]).collect();
    assert_eq!(names, expected);
}
