//! madmpi, installed as a user would, and programs that are built with it or with other MPI libraries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::err;
use super::made::Inputs;

/// What programs include of madmpi.
pub const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/madmpi-rs/include");

/// Where madmpi is installed, without Fortran.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| installed("madmpi", ""))
}

/// Where madmpi is installed with the Fortran of this machine; `None` without gfortran, which the test says.
pub fn fortran() -> Option<&'static Path> {
    static PREFIX: OnceLock<Option<PathBuf>> = OnceLock::new();
    let prefix = PREFIX.get_or_init(|| {
        let there =
            Command::new("gfortran").arg("--version").output().is_ok_and(|o| o.status.success());
        there.then(|| installed("madmpi-fortran", "gfortran"))
    });
    if prefix.is_none() {
        eprintln!("SKIPPED: there is no gfortran (apt-get install gfortran)");
    }
    prefix.as_deref()
}

/// Installs it for this test, in a folder of that name, with that compiler of Fortran.
fn installed(name: &str, compiler: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows itself");
    let test = test.file_stem().expect("a test has a name");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).join(test);
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/madmpi-rs"));
    let mut inputs = Inputs::default().words([compiler]);
    for part in ["include", "fortran", "tools"] {
        inputs = inputs.folder(&sources.join(part), &[]);
    }
    for built in ["libmadmpi.so", "libmadmpi.a", "mad", "../mad"] {
        inputs = inputs.built(&beside(built));
    }
    inputs.make(&folder, || {
        let mut command = install(&folder);
        let made = command.env("MPIFORT_FC", compiler).output().expect("the installer is there");
        assert!(made.status.success(), "{}", err(&made));
    });
    folder
}

/// A file that was built for this test, or with an empty name the folder.
fn beside(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows itself");
    test.with_file_name(name)
}

/// The installer of what was built for this test.
pub fn install(folder: &Path) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/madmpi-rs/tools/install"));
    command.arg(folder).arg(beside(""));
    command
}

/// A program, compiled with that compiler; where it is.
pub fn compile(compiler: &Path, program: &Path, label: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c");
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    let name = program.file_stem().expect("a program has a name").to_string_lossy();
    let binary = folder.join(format!("{name}.{label}"));
    // Two tests may compile the same program: neither runs what the other's linker has not finished.
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let unfinished = folder.join(format!("{name}.{label}.{}.{number}", std::process::id()));
    let mut command = Command::new(compiler);
    command.args(["-O1", "-Wall", "-Wno-deprecated-declarations", "-pthread"]);
    // The headers of others are theirs.
    command.args((label != "openmpi" && label != "mpich").then_some("-Werror"));
    let inputs = Inputs::default().words(command.get_args()).file(compiler);
    let beside = program.parent().expect("a program is in a folder");
    inputs.file(program).folder(beside, &["h"]).folder(HEADERS.as_ref(), &["h"]).make(
        &binary,
        || {
            let made = command
                .arg("-o")
                .arg(&unfinished)
                .arg(program)
                .arg("-lm")
                .output()
                .unwrap_or_else(|error| panic!("{}: {error}", compiler.display()));
            assert!(made.status.success(), "{}: {}", program.display(), err(&made));
            std::fs::rename(&unfinished, &binary).expect("a program takes its name");
        },
    );
    binary
}
