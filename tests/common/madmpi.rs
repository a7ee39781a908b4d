//! madmpi, installed as a user would, and programs in C that are built with it or with other MPI libraries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::err;

/// Where madmpi is installed.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let name = std::env::current_exe().expect("a test knows itself");
        let name = name.file_stem().expect("a test has a name").to_owned();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("madmpi").join(name);
        let mut built = std::env::current_exe().expect("a test knows itself");
        built.pop();
        let installed =
            Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/madmpi-rs/tools/install"))
                .args([&folder, &built])
                .output()
                .expect("the installer is there");
        assert!(installed.status.success(), "{}", err(&installed));
        folder
    })
}

/// Compiles a program with that compiler; where it is.
pub fn compile(compiler: &Path, program: &Path, label: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c");
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    let name = program.file_stem().expect("a program has a name").to_string_lossy();
    let binary = folder.join(format!("{name}.{label}"));
    let made = Command::new(compiler)
        .args(["-O1", "-Wall", "-Wno-deprecated-declarations", "-pthread"])
        // The headers of others are theirs.
        .args((label != "openmpi" && label != "mpich").then_some("-Werror"))
        .arg("-o")
        .arg(&binary)
        .arg(program)
        .arg("-lm")
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", compiler.display()));
    assert!(made.status.success(), "{}: {}", program.display(), err(&made));
    binary
}
