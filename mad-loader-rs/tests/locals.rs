//! Thread-local variables of programs that are linked as shared objects with a start.

mod common;

use common::{compile, has_cpp, lines, ranks, start};

#[test]
fn a_rank_keeps_its_thread_locals_wherever_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let start = start();
    let shared = ["-fPIC", "-shared", &start, "-Wl,-e,_start", "-pthread", "-DTHREADS"];
    for more in [&[][..], &["-O2"], &["-O2", "-ftls-model=local-dynamic"], &["-Wl,-z,lazy"]] {
        let program = compile(folder.path(), "locals.c", &[&shared, more].concat());
        let output = ranks(&["-n", "8", "-p", "2", program.to_str().unwrap(), "%"]);
        let text = String::from_utf8(output.stdout).unwrap();
        for rank in 0..8 {
            let (hidden, exported, target) = (2005 + rank, 20000 + 10 * rank, 7 + rank);
            let expected =
                format!("{rank}: {hidden} {exported} {target}, threads 1, same 1, aligned 1\n");
            assert!(text.contains(&expected), "{more:?}: {text}");
        }
        assert_eq!(output.status.code(), Some(0), "{more:?}");
    }
}

#[test]
fn the_same_file_runs_as_a_process_if_it_names_the_dynamic_linker() {
    let folder = tempfile::tempdir().unwrap();
    let start = start();
    let shared = ["-fPIC", "-shared", &start, "-Wl,-e,_start", "-DPROCESS"];
    let program = compile(folder.path(), "locals.c", &shared);
    let alone = std::process::Command::new(&program).arg("3").output().unwrap();
    let expected = "3: 2008 20030 10, threads 0, same 1, aligned 1\n";
    assert_eq!(String::from_utf8_lossy(&alone.stdout), expected);
    let output = ranks(&["-n", "4", program.to_str().unwrap(), "%"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains(expected));
}

#[test]
fn thread_local_objects_of_cpp_are_a_ranks_own_and_are_destroyed() {
    if !has_cpp() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let start = start();
    let shared = ["-fPIC", "-shared", &start, "-Wl,-e,_start", "-pthread"];
    let program = compile(folder.path(), "locals.cpp", &shared);
    let output = ranks(&["-n", "3", "-p", "2", program.to_str().unwrap(), "%"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let expected: String = (0..3)
        .map(|rank| {
            format!(
                "{rank}: object {rank}, 3 3\nthread {rank} destroyed\nobject {rank} destroyed\n"
            )
        })
        .collect();
    assert_eq!(lines(&text), lines(&expected));
    assert_eq!(output.status.code(), Some(0));
}
