//! A program that is built with `panic = "abort"`.

use std::path::Path;
use std::process::Command;

/// Builds and runs `programs/abort.rs`; what it wrote to its standard output and error.
#[test]
fn with_panic_abort_a_runtime_leaves_its_waiting_threads_and_says_so_once() {
    let marcel = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abort");
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = \"abort\"\nedition = \"2024\"\n\
         [dependencies]\nmarcel = {{ package = \"mad-marcel\", path = {marcel:?}, default-features = false }}\n\
         [profile.dev]\npanic = \"abort\"\n\
         [workspace]\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(folder.join("src/main.rs"), include_str!("programs/abort.rs")).unwrap();
    // The versions that are here already.
    std::fs::copy(marcel.join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env_remove("RUSTFLAGS")
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(folder.join("target/debug/abort")).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{:?}: {said}", ran.status);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "all is well\n");
    assert_eq!(said.matches("panic = \"abort\"").count(), 1, "{said}");
}
