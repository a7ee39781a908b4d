//! Programs in Fortran on madmpi: each of `madmpi-rs/tests/fortran` prints what its `.expected` file says, with each number of
//! processes and by all three interfaces (`mpif.h`, `mpi`, `mpi_f08`) where it includes `interface.h`; and, with `MAD_TEST_PEERS=1` and where they are installed,
//! on Open MPI and MPICH too. Ranks print in any order, so lines are compared sorted.
//!
//! A program with a part in C has it beside it, under the same name. `peers: mpich77`: MPICH with `mpif.h` only; so `mpi90`
//! and `mpi8` for the modules.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use common::made::Inputs;
use common::madmpi::{HEADERS, fortran};
use common::programs::{OTHERS, Program, programs, run, timed};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/madmpi-rs/tests/fortran");
/// What madmpi's modules are made from.
const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/madmpi-rs/fortran");

fn all() -> Vec<Program> {
    programs(PROGRAMS, &["F90", "f90", "f"])
}

/// The interfaces that a program has: 77 for `mpif.h`, 90 for `mpi`, 8 for `mpi_f08`; none if it has its own.
fn interfaces(program: &Program) -> &'static [&'static str] {
    let text = std::fs::read_to_string(&program.source).expect("a program is text");
    if text.contains("#include \"interface.h\"") { &["77", "90", "8"] } else { &[""] }
}

/// Compiles it, and its part in C if it has one, with the compilers of a library.
fn compile(library: &str, fortran: &Path, c: &Path, program: &Program, interface: &str) -> PathBuf {
    // Two tests compile the same program: the second finds it made, and does not replace what the first runs.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let name = program.source.file_stem().expect("a program has a name").to_string_lossy();
    let name = format!("{name}{interface}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fortran").join(library).join(&name);
    let binary = folder.join(&name);
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    let make = |command: &mut Command| {
        let made = command.current_dir(&folder).output().expect("a compiler");
        assert!(made.status.success(), "{command:?}: {}", common::err(&made));
    };
    let mut compiler = Command::new(fortran);
    let part = program.source.with_extension("c");
    compiler.args(part.exists().then_some("part.o"));
    // Optimised: the compiler moves accesses to variables as far as calls let it.
    compiler.args(["-O2", "-fallow-argument-mismatch", "-w", "-o", &name]).arg(&program.source);
    compiler.args((library != "madmpi").then_some("-DPEER"));
    compiler.args((!interface.is_empty()).then(|| format!("-DINTERFACE={interface}")));
    let mut inputs = Inputs::default().words(compiler.get_args()).file(fortran).file(c);
    for sources in [PROGRAMS, MODULES, HEADERS] {
        inputs = inputs.folder(sources.as_ref(), &[]);
    }
    inputs.make(&binary, || {
        if part.exists() {
            make(Command::new(c).args(["-Wall", "-c", "-o", "part.o"]).arg(part));
        }
        make(&mut compiler);
    });
    binary
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn check(output: &std::process::Output, program: &Program, label: &str) {
    let found = common::out(output);
    assert_eq!(
        sorted(&found),
        sorted(&program.expected),
        "{} on {label}: {}",
        program.source.display(),
        common::err(output)
    );
}

#[test]
fn programs_print_what_mpi_says_by_each_interface() {
    let Some(prefix) = fortran() else { return };
    let (compiler, c) = (prefix.join("bin/mpifort"), prefix.join("bin/mpicc"));
    for program in all() {
        for interface in interfaces(&program) {
            let binary = compile("madmpi", &compiler, &c, &program, interface);
            let binary = binary.to_string_lossy();
            for driver in ["shm", "tcp"] {
                let args = ["run", "-n", &program.processes, "--driver", driver, &binary];
                let label = format!("{driver} with interface {interface}");
                check(&run(common::mad(&args), &program, &label), &program, &label);
            }
        }
    }
}

/// Its library compares addresses of the program's common blocks, and would know those of one copy.
#[test]
fn ranks_that_share_a_process_are_refused() {
    let Some(prefix) = fortran() else { return };
    let (compiler, c) = (prefix.join("bin/mpifort"), prefix.join("bin/mpicc"));
    let program = all().swap_remove(0);
    let interface = interfaces(&program)[0];
    let binary = compile("madmpi", &compiler, &c, &program, interface);
    let binary = binary.to_string_lossy();
    let refused = |output: std::process::Output| {
        let said = common::err(&output);
        assert_eq!(
            (output.status.code(), common::out(&output)),
            (Some(1), String::new()),
            "{said}"
        );
        assert!(said.contains("libmadmpi_fortran.so.1 knows constants of Fortran"), "{said}");
        assert!(said.contains("run its ranks as processes"), "{said}");
    };
    refused(timed(common::mad(&["run", "-n", "2", "--ranks-per-process", "2", &binary])));
    // Another launcher only sets the variable.
    let mut own = common::mad(&["run", "-n", "1", &binary]);
    own.env("NMAD_RANKS", "2");
    refused(timed(own));
    let output = timed(common::mad(&["doctor", &binary]));
    assert!(common::out(&output).contains("libmadmpi_fortran.so.1"), "{}", common::out(&output));
}

#[test]
fn other_libraries_print_the_same() {
    if !common::programs::peers_are_asked_for() {
        return;
    }
    if fortran().is_none() {
        return;
    }
    for (library, launcher, options) in OTHERS {
        let (compiler, c) = (format!("mpifort.{library}"), format!("mpicc.{library}"));
        let there =
            Command::new(&compiler).args(["-E", "-x", "f95-cpp-input", "/dev/null"]).output();
        if !there.is_ok_and(|made| made.status.success()) {
            eprintln!("SKIPPED: {library} is not installed with Fortran");
            continue;
        }
        for program in all() {
            for interface in interfaces(&program) {
                if !program.runs_on(&[library, &format!("{library}{interface}")]) {
                    continue;
                }
                let (compiler, c) = (Path::new(&compiler), Path::new(&c));
                let binary = compile(library, compiler, c, &program, interface);
                let mut command = Command::new(launcher);
                command.args(*options).args(["-n", &program.processes]).arg(binary);
                command.env("OMPI_MCA_mpi_yield_when_idle", "1");
                let output = timed(command);
                let label = format!("{library} with interface {interface}");
                if output.status.code() == Some(124) {
                    eprintln!("SKIPPED: {} takes too long on {label}", program.source.display());
                    continue;
                }
                let said = common::err(&output);
                let source = program.source.display();
                assert!(output.status.success(), "{source} on {label}: {said}");
                check(&output, &program, &label);
            }
        }
    }
}

/// Names that the text has after `start`, up to a character that no name has.
fn names<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let rest = text.lines().filter_map(|line| line.trim_start().strip_prefix(start));
    let name = |rest: &'a str| rest.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next();
    rest.filter_map(name).collect()
}

/// Each procedure that a module declares is in the library: a program that calls it links.
#[test]
fn every_procedure_of_the_modules_is_in_the_library() {
    let Some(prefix) = fortran() else { return };
    let library = prefix.join("lib/libmadmpi_fortran.so.1");
    let nm = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm");
    let symbols = common::out(&nm);
    let there: BTreeSet<&str> =
        symbols.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    let sources = Path::new(PROGRAMS).join("../../fortran");
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fortran-generated");
    std::fs::create_dir_all(&made).expect("a folder");
    let generated =
        Command::new(sources.join("generate.sh")).arg(&made).output().expect("a script");
    assert!(generated.status.success(), "{}", common::err(&generated));
    let mut count = 0;
    for (folder, file) in
        [(&sources, "shared.f90"), (&made, "interfaces.f90"), (&made, "interfaces_f08.f90")]
    {
        let text = std::fs::read_to_string(folder.join(file)).expect("a part of a module");
        let text: String = text
            .lines()
            .filter(|line| !line.contains("bind(C"))
            .fold(String::new(), |all, line| all + line + "\n");
        for name in names(&text, "subroutine ").into_iter().chain(names(&text, "function ")) {
            for symbol in [name.to_lowercase(), format!("p{}", name.to_lowercase())] {
                let symbol = format!("{symbol}_");
                assert!(there.contains(&*symbol), "{file} has {name}, the library no {symbol}");
                count += 1;
            }
        }
    }
    assert!(count > 2000, "{count} procedures were looked for");
}
