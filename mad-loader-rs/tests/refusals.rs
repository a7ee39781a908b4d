//! Files that cannot run as ranks: each refusal says why, and a way out, which the test goes.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{host, source};
use mad_loader::{Error, Program, Refusal, inspect};

/// A program of `tests/c` that is compiled so that it is refused, and then as the message says.
struct Case {
    source: &'static str,
    flags: &'static str,
    refusal: fn(&Refusal) -> bool,
    reason: &'static str,
    /// What the message recommends, word for word.
    advice: &'static [&'static str],
    /// Flags with which the program runs: those of the advice, or none where that is to leave some out.
    then: &'static str,
}

const SHARED: &str = "link with -shared \"$(cc -print-file-name=Scrt1.o)\" -Wl,-e,_start";
const SHARED_FLAGS: &str = "-fPIC -shared \"$(cc -print-file-name=Scrt1.o)\" -Wl,-e,_start";

const CASES: &[Case] = &[
    Case {
        source: "many.c",
        flags: "-static",
        refusal: |r| *r == Refusal::Static,
        reason: "it is linked statically",
        advice: &["link without -static and -static-pie"],
        then: "",
    },
    Case {
        source: "many.c",
        flags: "-static-pie",
        refusal: |r| *r == Refusal::Static,
        reason: "it is linked statically",
        advice: &["link without -static and -static-pie"],
        then: "",
    },
    Case {
        source: "many.c",
        flags: "-no-pie -fno-pie",
        refusal: |r| *r == Refusal::FixedAddresses,
        reason: "it works at fixed addresses only",
        advice: &["compile with -fPIE", "link with -pie"],
        then: "-fPIE -pie",
    },
    Case {
        source: "locals.c",
        flags: "-fPIE -pie",
        refusal: |r| *r == Refusal::ThreadLocals,
        reason: "has thread-local variables",
        advice: &["compile with -fPIC", SHARED],
        then: SHARED_FLAGS,
    },
    // The linker of an executable makes local-exec of every model.
    Case {
        source: "locals.c",
        flags: "-fPIE -pie -ftls-model=global-dynamic",
        refusal: |r| *r == Refusal::ThreadLocals,
        reason: "has thread-local variables",
        advice: &["compile with -fPIC", SHARED],
        then: SHARED_FLAGS,
    },
    Case {
        source: "locals.c",
        flags: "-ftls-model=initial-exec -fPIC -shared \"$(cc -print-file-name=Scrt1.o)\" -Wl,-e,_start",
        refusal: |r| *r == Refusal::StaticThreadLocals,
        reason: "at a fixed distance from the thread pointer",
        advice: &["-fPIC -ftls-model=global-dynamic"],
        then: "-ftls-model=global-dynamic -fPIC -shared \"$(cc -print-file-name=Scrt1.o)\" -Wl,-e,_start",
    },
    Case {
        source: "locals.c",
        flags: "-mtls-dialect=gnu2 -fPIC -shared \"$(cc -print-file-name=Scrt1.o)\" -Wl,-e,_start",
        refusal: |r| *r == Refusal::LocalDescriptors,
        reason: "by descriptors",
        advice: &["-mtls-dialect=gnu"],
        then: "-mtls-dialect=gnu -fPIC -shared \"$(cc -print-file-name=Scrt1.o)\" -Wl,-e,_start",
    },
    Case {
        source: "many.c",
        flags: "-fPIC -shared",
        refusal: |r| *r == Refusal::Library,
        reason: "a shared library without a start",
        advice: &["link the program as an executable (-pie)"],
        then: "-pie",
    },
    Case {
        source: "many.c",
        flags: "-c",
        refusal: |r| *r == Refusal::NotExecutable,
        reason: "an object or core file",
        advice: &["link it to an executable"],
        then: "",
    },
    Case {
        source: "many.c",
        flags: "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1",
        refusal: |r| *r == Refusal::OtherLinker("/lib/ld-musl-x86_64.so.1".into()),
        reason: "asks for the dynamic linker /lib/ld-musl-x86_64.so.1",
        advice: &["compile the program for glibc on this machine"],
        then: "",
    },
    Case {
        source: "many.c",
        flags: "-Wl,--audit=libaudit.so",
        refusal: |r| *r == Refusal::Auditor,
        reason: "names a library that watches the dynamic linker",
        advice: &["link without --audit and --depaudit"],
        then: "",
    },
    Case {
        source: "many.c",
        flags: "-Wl,--depaudit=libaudit.so",
        refusal: |r| *r == Refusal::Auditor,
        reason: "names a library that watches the dynamic linker",
        advice: &["link without --audit and --depaudit"],
        then: "",
    },
    Case {
        source: "many.c",
        flags: "-Wl,-z,nodlopen -fPIC -shared \"$(cc -print-file-name=Scrt1.o)\" -Wl,-e,_start",
        refusal: |r| *r == Refusal::NotForDlopen,
        reason: "marked as not to be loaded at run time",
        advice: &["link it without -z nodlopen"],
        then: SHARED_FLAGS,
    },
    Case {
        source: "many.c",
        flags: "-Wl,-z,execstack",
        refusal: |r| *r == Refusal::ExecutableStack,
        reason: "asks for an executable stack",
        advice: &["link with -z noexecstack"],
        then: "-z noexecstack",
    },
    Case {
        source: "allocator.c",
        flags: "-DOWN",
        refusal: |r| matches!(r, Refusal::Allocator(_)),
        reason: "brings an allocator of its own (",
        advice: &["link without it"],
        then: "",
    },
    Case {
        source: "start.c",
        flags: "-DOWN -nostartfiles",
        refusal: |r| *r == Refusal::OtherStart,
        reason: "does not call __libc_start_main",
        advice: &["a C or C++ compiler's usual start files"],
        then: "",
    },
];

/// Compiles as a user would in a shell.
fn make(folder: &Path, file: &str, flags: &str) -> PathBuf {
    let program = folder.join("program");
    let command = format!("cc -g '{}' -o '{}' {flags}", source(file).display(), program.display());
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(status.success(), "{command}");
    program
}

/// What `Program::open` answers, after `inspect` has said the same.
fn refused(program: &Path) -> (Refusal, String) {
    let seen = inspect(program)
        .unwrap()
        .refusal
        .unwrap_or_else(|| panic!("{} is not refused", program.display()));
    let error = Program::open(program).unwrap_err();
    let text = error.to_string();
    let Error::Refused(path, refusal) = error else { panic!("{text}") };
    assert_eq!((path.as_path(), &refusal), (program, &seen));
    assert!(text.starts_with(&format!("{} cannot run as threads: ", program.display())), "{text}");
    (refusal, text)
}

fn runs(program: &Path) {
    let output = Command::new(host()).args(["-n", "2"]).arg(program).arg("%").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{}: {errors}", program.display());
}

#[test]
fn each_refusal_says_why_and_the_way_out_that_it_names_works() {
    let folder = tempfile::tempdir().unwrap();
    for case in CASES {
        let program = make(folder.path(), case.source, case.flags);
        let (refusal, text) = refused(&program);
        assert!((case.refusal)(&refusal), "{}: {refusal:?}", case.flags);
        for words in case.advice.iter().chain([&case.reason]) {
            assert!(text.contains(words), "{}: {words} is not in: {text}", case.flags);
        }
        runs(&make(folder.path(), case.source, case.then));
    }
}

/// A file that is not trusted names the program that lists its libraries: its name must not be enough.
#[test]
fn a_dynamic_linker_that_only_has_the_name_of_the_machines_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let (linker, mark) = (folder.path().join("ld-linux-x86-64.so.2"), folder.path().join("mark"));
    std::fs::write(&linker, format!("#!/bin/sh\n: > '{}'\n", mark.display())).unwrap();
    std::fs::set_permissions(&linker, std::fs::Permissions::from_mode(0o755)).unwrap();
    let linker = linker.display().to_string();
    let program = make(folder.path(), "many.c", &format!("-Wl,--dynamic-linker='{linker}'"));
    assert_eq!(refused(&program).0, Refusal::OtherLinker(linker));
    assert!(!mark.exists(), "code that the file names has run");
}

/// The same file by another path is the machine's.
#[test]
fn the_machines_dynamic_linker_may_have_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let linker = folder.path().join("loader");
    std::os::unix::fs::symlink("/lib64/ld-linux-x86-64.so.2", &linker).unwrap();
    let flags = format!("-Wl,--dynamic-linker='{}'", linker.display());
    let program = make(folder.path(), "many.c", &flags);
    let found = inspect(&program).unwrap();
    assert_eq!(found.refusal, None);
    assert!(!found.libraries.contains(&linker.display().to_string()), "{:?}", found.libraries);
    runs(&program);
}

/// The dynamic linker needs no section headers to find what a program exports.
#[test]
fn an_allocator_is_found_without_section_headers() {
    let folder = tempfile::tempdir().unwrap();
    for style in ["gnu", "sysv", "both"] {
        for source in ["allocator.c", "many.c"] {
            let flags = format!("-DOWN -rdynamic -Wl,--hash-style={style}");
            let program = make(folder.path(), source, &flags);
            let mut bytes = std::fs::read(&program).unwrap();
            bytes[40..48].fill(0); // where they are
            bytes[60..64].fill(0); // their number, and which one has their names
            std::fs::write(&program, bytes).unwrap();
            if source == "many.c" {
                runs(&program);
                continue;
            }
            let (refusal, text) = refused(&program);
            assert!(matches!(refusal, Refusal::Allocator(_)), "{style}: {text}");
        }
    }
}

#[test]
fn a_start_of_its_own_is_refused_in_an_executable() {
    let folder = tempfile::tempdir().unwrap();
    let program = make(folder.path(), "start.c", "-DOWN -nostartfiles -pie");
    assert_eq!(refused(&program).0, Refusal::OtherStart);
}

#[test]
fn files_that_are_no_programs_of_this_machine_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = make(folder.path(), "many.c", "");
    let bytes = std::fs::read(&program).unwrap();
    let path = folder.path().join("changed");
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bytes
    };
    let script = b"#!/usr/bin/env python3\nprint(1)\n".to_vec();
    let interpreter = Refusal::Script("/usr/bin/env python3".into());
    for (contents, refusal, words) in [
        (vec![], Refusal::NotElf, "neither an ELF executable nor a script"),
        (b"hello".to_vec(), Refusal::NotElf, "give a compiled program"),
        (script, interpreter, "mad run -n RANKS PROGRAM"),
        (with(4, 1), Refusal::Bits32, "without -m32"),
        (with(18, 183), Refusal::OtherMachine("aarch64".into()), "a file for aarch64"),
        (with(19, 77), Refusal::OtherMachine("machine number 19774".into()), "for x86-64"),
        (with(5, 2), Refusal::OtherMachine("x86-64".into()), "compile the program for x86-64"),
    ] {
        std::fs::write(&path, contents).unwrap();
        let (found, text) = refused(&path);
        assert_eq!(found, refusal);
        assert!(text.contains(words), "{text}");
    }
}

/// Without section headers a program runs; without anything before them it does not.
#[test]
fn a_truncated_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = make(folder.path(), "many.c", "");
    let bytes = std::fs::read(&program).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let headers = (0..usize::from(bytes[56])).map(|index| word(32) + 56 * index);
    let loads = headers.filter(|at| bytes[*at] == 1);
    let end = loads.map(|at| word(at + 8) + word(at + 32)).max().unwrap();
    let path = folder.path().join("cut");
    for len in (4..64).chain((64..end).step_by(97)).chain([end - 1]) {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let (refusal, text) = refused(&path);
        assert!(matches!(refusal, Refusal::Damaged(_)), "{len}: {text}");
        assert!(text.contains("the file is damaged") && text.contains("link the program again"));
    }
    std::fs::write(&path, &bytes[..end]).unwrap();
    runs(&path);
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_kernels_words() {
    let folder = tempfile::tempdir().unwrap();
    for (path, words) in
        [(folder.path().join("missing"), "No such file"), (folder.path().into(), "Is a directory")]
    {
        assert!(inspect(&path).is_err());
        let error = Program::open(&path).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Read(..)), "{text}");
        assert!(text.contains(path.to_str().unwrap()) && text.contains(words), "{text}");
        assert!(text.contains("give the path of an executable"), "{text}");
    }
}

/// A device gives bytes without end, and a pipe lets its reader wait.
#[test]
fn only_a_regular_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [Path::new("/dev/null"), &pipe] {
        for text in
            [inspect(path).unwrap_err().to_string(), Program::open(path).unwrap_err().to_string()]
        {
            assert!(text.contains("it is no regular file"), "{}: {text}", path.display());
        }
    }
}

/// A library that defines what `uses.c` uses, or nothing. Each test has a name of its own: the tests are one process,
/// which has the libraries that it has loaded.
fn library(folder: &Path, name: &str, flags: &str) -> PathBuf {
    let file = folder.join(format!("lib{name}.so"));
    let command = format!(
        "cc -fPIC -shared '{}' -o '{}' {flags}",
        source("used.c").display(),
        file.display()
    );
    assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    file
}

#[test]
fn missing_libraries_are_named_and_found_where_the_message_says() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    library(folder.path(), "missing", "");
    let program = make(folder.path(), "uses.c", &format!("-L'{place}' -lmissing"));
    let (refusal, text) = refused(&program);
    assert_eq!(refusal, Refusal::MissingLibraries(vec!["libmissing.so".into()]));
    assert!(text.contains("LD_LIBRARY_PATH") && text.contains("-rpath"), "{text}");
    let mut command = Command::new(host());
    let status = command.args(["-n", "2"]).arg(&program).env("LD_LIBRARY_PATH", folder.path());
    assert_eq!(status.status().unwrap().code(), Some(0));
    runs(&make(folder.path(), "uses.c", &format!("-L'{place}' -lmissing -Wl,-rpath,'{place}'")));
}

/// A library without a name of its own is asked for by the path that the link had.
#[test]
fn a_library_that_is_asked_for_by_its_path_is_found_and_seen() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path(), "path", "-DVARIABLE");
    let name = library.display().to_string();
    let program = make(folder.path(), "uses.c", &format!("'{name}'"));
    let found = inspect(&program).unwrap();
    assert_eq!(found.refusal, None);
    assert!(found.libraries.contains(&name), "{:?}", found.libraries);
    let data = found.shared.iter().find(|data| data.library == name).unwrap();
    assert_eq!((&data.path, &data.names), (&library, &vec!["uses".to_owned()]));
    runs(&program);
    let private = ["-n", "2", "--private", &name];
    let output = Command::new(host()).args(private).arg(&program).arg("%").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
}

#[test]
fn a_function_that_no_library_has_is_named_before_any_copy_runs() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    library(folder.path(), "old", "");
    let flags = format!("-L'{place}' -lold -Wl,-rpath,'{place}' -Wl,-z,lazy");
    let program = make(folder.path(), "uses.c", &flags);
    library(folder.path(), "old", "-DNOTHING");
    let program = Program::open(&program).unwrap();
    for number in [0, 1, 7] {
        let error = program.load(number).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Copy(of, _) if of == number), "{text}");
        assert!(text.contains("undefined symbol: used"), "{text}");
        assert!(text.contains(program.path().to_str().unwrap()), "{text}");
    }
}

#[test]
fn a_library_whose_thread_locals_find_no_room_is_named_and_the_way_out_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    library(folder.path(), "wide", "-DLOCALS -ftls-model=initial-exec");
    let flags = format!("-L'{place}' -lwide -Wl,-rpath,'{place}'");
    let program = make(folder.path(), "uses.c", &flags);
    let error = Program::open(&program).unwrap_err().to_string();
    assert!(error.contains("libwide.so") && error.contains("static TLS"), "{error}");
    let (_, tunable) = error.split_once("GLIBC_TUNABLES=").unwrap();
    let tunable = tunable.split([',', ';', ' ']).next().unwrap();
    let mut command = Command::new(host());
    let output = command.args(["-n", "2"]).arg(&program).env("GLIBC_TUNABLES", tunable).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// It knows common blocks of Fortran by their addresses: a program without them gives it none.
#[test]
fn a_library_that_knows_one_copy_is_refused_where_the_program_has_what_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    library(folder.path(), "madmpi_fortran", "");
    let flags = format!("-L'{place}' -Wl,-rpath,'{place}' -lmadmpi_fortran -rdynamic");
    let program = make(folder.path(), "uses.c", &format!("-DFORTRAN {flags}"));
    let (refusal, text) = refused(&program);
    assert_eq!(refusal, Refusal::BoundLibrary("libmadmpi_fortran.so".into()));
    assert!(text.contains("run its ranks as processes"), "{text}");
    let program = make(folder.path(), "uses.c", &flags);
    assert_eq!(inspect(&program).unwrap().refusal, None);
    runs(&program);
}
