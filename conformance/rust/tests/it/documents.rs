//! Tests that the documentation's snippet for this client compiles and runs unchanged, except for the URL, the account,
//! its key and the table name.

use crate::target::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, account, endpoint, key, new_name, service};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the only snippet for this client. The client library of this repository tests its own snippets.
fn snippet(document: &str) -> &str {
    let mut snippets =
        document.split("\n```rust azure_data_tables\n").skip(1).map(|rest| rest.split_once("```\n").unwrap().0);
    let snippet = snippets.next().expect("the page has a snippet for this client");
    assert!(snippets.next().is_none(), "the page has more than one snippet for this client");
    snippet
}

#[tokio::test]
async fn the_snippet_for_this_client_runs() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(package.join("../../docs/getting-started.md")).unwrap();
    let table = new_name();
    let mut program = snippet(&document).to_owned();
    for (old, new) in [
        ("http://127.0.0.1:10002/devstoreaccount1", endpoint()),
        (DEVELOPMENT_KEY, key()),
        (&format!("\"{DEVELOPMENT_ACCOUNT}\""), format!("\"{}\"", account())),
        ("\"cars\"", format!("\"{table}\"")),
    ] {
        assert!(program.contains(old), "the snippet does not contain {old}");
        program = program.replace(old, &new);
    }

    // The name, the dependencies and the folder of the package are the same in every run, so that Cargo finds the
    // dependencies already compiled.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("snippet");
    let manifest = std::fs::read_to_string(package.join("Cargo.toml")).unwrap();
    let manifest = manifest.replace("[[test]]\nname = \"it\"\n", "").replace("[dev-dependencies]", "[dependencies]");
    std::fs::create_dir_all(folder.join("src")).unwrap();
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(package.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    std::fs::write(folder.join("src/main.rs"), program).unwrap();
    let run = || {
        let mut cargo = Command::new(env!("CARGO"));
        // The variables that Cargo sets for tests would make it rebuild dependencies that read them.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_MANIFEST_") || name.to_string_lossy().starts_with("CARGO_PKG_")
            {
                cargo.env_remove(name);
            }
        }
        let done = cargo
            .args(["run", "--quiet", "--offline", "--locked", "--target-dir"])
            .arg(target_folder())
            .current_dir(&folder)
            .output()
            .unwrap();
        let (printed, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{printed}{errors}");
        assert_eq!(errors, "", "there must be no warnings");
        printed.into_owned()
    };
    let expected = "[Car { make: \"kestrel\", number: \"0007\", doors: 4 }]\n";
    let printed = [run(), run()];
    service().table_client(&table).delete().await.unwrap();
    assert_eq!(printed, [expected; 2]);
}

fn target_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}
