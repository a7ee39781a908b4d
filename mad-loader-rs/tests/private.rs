//! Libraries of which each rank has a copy.

mod common;

use std::path::Path;
use std::process::Command;

use common::{compile, host, lines, ranks, source};
use mad_loader::{Error, Program};

fn library(folder: &Path, name: &str, flags: &[&str]) {
    let status = Command::new("cc")
        .args(["-g", "-fPIC", "-shared", "-o", &format!("lib{name}.so")])
        .arg(format!("-Wl,-soname,lib{name}.so"))
        .arg(format!("-D{}", name[..5].to_uppercase()))
        .arg(source("private.c"))
        .args(flags)
        .current_dir(folder)
        .status()
        .unwrap();
    assert!(status.success());
}

/// A program that uses two libraries, one of which uses the other.
fn program(folder: &Path, flags: &[&str]) -> String {
    let place = format!("-L{}", folder.display());
    let way = format!("-Wl,-rpath,{}", folder.display());
    let libraries = [&place, &way, "-Wl,--no-as-needed", "-louter", "-linner"];
    let program = compile(folder, "private.c", &[flags, &libraries[..]].concat());
    program.to_str().unwrap().to_owned()
}

#[test]
fn a_private_library_has_variables_constructors_and_destructors_in_each_rank() {
    let folder = tempfile::tempdir().unwrap();
    let place = format!("-L{}", folder.path().display());
    for flags in [&[][..], &["-Wl,-z,now"], &["-O2"]] {
        library(folder.path(), "inner", flags);
        library(folder.path(), "outer", &[&place, "-linner"]);
        for flags in [&["-O1"][..], &["-fPIC", "-rdynamic"]] {
            let program = program(folder.path(), flags);
            let private = ["--private", "libinner.so", "--private", "libouter.so"];
            let options = ["-n", "3", "-p", "2"];
            let output = ranks(&[&private[..], &options, &[&program, "%"]].concat());
            let text = String::from_utf8(output.stdout).unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            let own = |rank: i32| {
                let value = 100 + rank;
                format!(
                    "{rank}: {} {value} {value}, started 2\ninner ends with 6\n\
                     inner stops with {value}\n",
                    1000 * value + 6
                )
            };
            // The library itself has been started by nobody, and is stopped with the process.
            let expected = (0..3).map(own).collect::<String>() + "inner stops with 100\n";
            assert_eq!(lines(&text), lines(&expected), "{errors}");
            assert_eq!(output.status.code(), Some(0), "{errors}");
        }
    }
}

/// What private libraries are for: without them ranks count together.
#[test]
fn a_library_that_is_not_private_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let place = format!("-L{}", folder.path().display());
    library(folder.path(), "inner", &[]);
    library(folder.path(), "outer", &[&place, "-linner"]);
    let program = program(folder.path(), &[]);
    let output = Command::new(host()).args(["-n", "3", &program, "%"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last = |line: &str| line.split([' ', ',']).nth(1).unwrap().parse::<i32>().unwrap() % 1000;
    let most = text.lines().filter(|line| line.contains("started")).map(last).max();
    assert_eq!(most, Some(18), "15 calls and one of each rank: {text}");
}

#[test]
fn a_library_that_cannot_be_private_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let place = format!("-L{}", folder.path().display());
    library(folder.path(), "inner", &["-DLOCALS", "-ftls-model=initial-exec"]);
    library(folder.path(), "outer", &[&place, "-linner"]);
    let program = program(folder.path(), &[]);
    for (names, words) in [
        (&["libinner.so"][..], "libouter.so, which ranks share, uses it; make that private, too"),
        (&["libinner.so", "libouter.so"], "-ftls-model=global-dynamic"),
        (&["libnone.so"], "the program does not use it, but libouter.so, libinner.so"),
        (&["libc.so.6"], "a process has it once"),
    ] {
        let error = Program::open_with_private(program.as_ref(), names).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Private(..)), "{text}");
        assert!(text.contains(words) && text.contains(names[0]), "{text}");
    }
}
