//! Programs that tests compile, and runs of them as ranks of a child process.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A file of `tests/c`.
pub(crate) fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(file)
}

/// Compiles a program of `tests/c`.
#[allow(dead_code, reason = "not every test file uses it")]
pub(crate) fn compile(folder: &Path, file: &str, flags: &[&str]) -> PathBuf {
    let program = folder.join(file.split('.').next().unwrap());
    let compiler = if file.ends_with(".cpp") { "c++" } else { "cc" };
    let status = Command::new(compiler)
        .arg("-g")
        .arg(source(file))
        .arg("-o")
        .arg(&program)
        .args(flags)
        .status()
        .expect("cc");
    assert!(status.success(), "{file} does not compile");
    program
}

/// Runs the example `copies`, for two minutes at most: `arguments` are its options, the program and the program's arguments.
#[allow(dead_code, reason = "not every test file uses it")]
pub(crate) fn ranks(arguments: &[&str]) -> Output {
    Command::new("timeout").arg("120").arg(host()).args(arguments).output().unwrap()
}

/// The host program that runs ranks.
pub(crate) fn host() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    let path = path.join("examples/copies");
    assert!(path.exists(), "{} is not built: run the tests with cargo test", path.display());
    path
}

/// The object file that has the start of a program.
#[allow(dead_code, reason = "not every test file uses it")]
pub(crate) fn start() -> String {
    let output = Command::new("cc").arg("-print-file-name=Scrt1.o").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Whether there is a C++ compiler.
#[allow(dead_code, reason = "not every test file uses it")]
pub(crate) fn has_cpp() -> bool {
    let found = Command::new("c++").arg("--version").output().is_ok();
    if !found {
        println!("SKIPPED: no C++ compiler: apt install g++");
    }
    found
}

/// The lines of a text, in order of the alphabet: ranks write in any order.
#[allow(dead_code, reason = "not every test file uses it")]
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}
