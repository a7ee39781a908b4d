//! The library against the tables of the ABI. It exports every function there with its `PMPI_` twin, and no other name
//! of MPI. The header agrees with the tables, and a C compiler finds the values and sizes that the standard publishes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn table(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(HERE).join("abi").join(name)).expect("the table");
    text.lines().filter(|row| !row.is_empty() && !row.starts_with('#')).map(str::to_owned).collect()
}

/// Names of the functions in the table.
fn functions() -> BTreeSet<String> {
    let name = |row: &String| {
        let head = row.split('(').next().expect("a prototype has arguments");
        head.rsplit([' ', '*']).next().expect("a name").to_owned()
    };
    table("functions.txt").iter().map(name).collect()
}

fn library() -> PathBuf {
    let mut path = std::env::current_exe().expect("a test knows itself");
    path.pop();
    path.push("libmadmpi.so");
    assert!(path.exists(), "{} is not there", path.display());
    path
}

fn exported() -> BTreeSet<String> {
    let nm = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().expect("nm");
    let text = String::from_utf8(nm.stdout).expect("names");
    text.lines().filter_map(|line| line.rsplit(' ').next()).map(str::to_owned).collect()
}

#[test]
fn every_function_is_there_and_its_twin() {
    let (wanted, found) = (functions(), exported());
    assert_eq!(wanted.len(), 662);
    let twins: BTreeSet<String> = wanted.iter().map(|name| format!("P{name}")).collect();
    let all: BTreeSet<String> = wanted.union(&twins).cloned().collect();
    let missing: Vec<&String> = all.difference(&found).collect();
    assert!(missing.is_empty(), "{} missing: {missing:?}", missing.len());
    let mpi = |name: &&String| name.starts_with("MPI_") || name.starts_with("PMPI_");
    let strangers: Vec<&String> =
        found.iter().filter(mpi).filter(|name| !all.contains(*name)).collect();
    assert!(strangers.is_empty(), "not in the table: {strangers:?}");
}

#[test]
fn the_library_is_named_as_the_abi_wants() {
    let readelf = Command::new("readelf").arg("-d").arg(library()).output().expect("readelf");
    let text = String::from_utf8_lossy(&readelf.stdout).into_owned();
    assert!(text.contains("soname: [libmpi_abi.so.1]"), "{text}");
}

#[test]
fn the_header_is_made_of_the_tables() {
    let header = Path::new(HERE).join("include/mpi.h");
    let text = std::fs::read_to_string(&header).expect("the header");
    for row in table("functions.txt") {
        assert!(
            text.contains(&format!("\n{row}\n")),
            "the header has no {row}: run tools/header.py"
        );
    }
    // The compiler checks values and sizes.
    let mut program = String::from("#include <mpi.h>\n");
    for row in table("constants.txt") {
        let fields: Vec<&str> = row.split_whitespace().collect();
        let line = match fields[..] {
            [name, "=", other] => format!("_Static_assert({name} == {other}, \"{name}\");\n"),
            [name, "int", value] => format!("_Static_assert({name} == {value}, \"{name}\");\n"),
            [name, kind, value] => format!("static {kind} the_{name} = ({kind}){value};\n"),
            _ => panic!("{row:?}"),
        };
        program.push_str(&line);
    }
    program.push_str(
        "_Static_assert(sizeof(MPI_Status) == 32, \"status\");\n\
         _Static_assert(sizeof(MPI_Comm) == sizeof(void *) && sizeof(MPI_Aint) == sizeof(void *), \"handles\");\n\
         _Static_assert(sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8 && sizeof(MPI_Fint) == 4, \"counts\");\n\
         int main(void) {\n    int wrong = 0;\n",
    );
    for row in table("constants.txt") {
        let fields: Vec<&str> = row.split_whitespace().collect();
        if fields[1] != "=" && fields[1] != "int" {
            program.push_str(&format!("    wrong += the_{0} != {0};\n", fields[0]));
        }
    }
    program.push_str("    return wrong;\n}\n");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("constants.c"), folder.join("constants"));
    std::fs::write(&source, program).expect("writing a program");
    let include = Path::new(HERE).join("include");
    let cc = Command::new("cc")
        .arg("-w")
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .output();
    let cc = cc.expect("cc");
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
    assert!(Command::new(&binary).status().expect("it runs").success());
}
