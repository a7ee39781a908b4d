//! `mad bench` beside MPI libraries: those that are missing, and programs that say something else than they should. What
//! stands for a library here is a compiler that makes a shell script, and a launcher that runs it.

mod common;
mod measured;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{err, mad, out};
use measured::bench;
use serde_json::Value;

/// A folder of its own, gone at the end.
struct Here(PathBuf);

impl Here {
    fn new(name: &str) -> Here {
        let path = std::env::temp_dir().join(format!("mad-mpi-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Here(path)
    }

    /// A library below it whose programs are this script.
    fn library(&self, name: &str, script: &str) {
        let bin = self.0.join(name).join("bin");
        fs::create_dir_all(&bin).unwrap();
        let executable = |name: &str, text: &str| {
            let path = bin.join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        executable("program", script);
        executable(
            "mpicc",
            r#"while [ "$1" != -o ]; do shift; done; cp "$(dirname "$0")/program" "$2""#,
        );
        // Its own options end where the program is.
        executable("mpiexec", r#"while [ ! -x "$1" ] || [ -d "$1" ]; do shift; done; "$@""#);
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn beside(here: &Path, libraries: &str, bench: &str) -> Output {
    command(here, libraries, bench).output().unwrap()
}

fn command(here: &Path, libraries: &str, bench: &str) -> Command {
    let mut command = mad(&["bench", bench, "--json", "--driver", "shm", "--library", libraries]);
    command.args(["--iters", "20", "--rounds", "2", "--timeout", "100", "--peers-dir"]).arg(here);
    command.env("XDG_CACHE_HOME", here.join("cache"));
    command
}

fn objects(output: &Output) -> Vec<Value> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(objects: &'a [Value], library: &str, metric: &str) -> Vec<&'a Value> {
    objects
        .iter()
        .filter(|object| object["config"]["library"] == library && object["metric"] == metric)
        .collect()
}

/// Says the same about every point that it is asked for.
const HONEST: &str = r#"shift 3; for point; do
    printf '{"Samples":[%s,"half_round_trip",[0.5,0.5]]}\n' "${point%%:*}"
done"#;

#[test]
fn the_new_benches_measure_newmad_alone() {
    let few = ["--library", "newmad", "--iters", "20", "--rounds", "2"];
    let rates = bench("rate", &few);
    assert_eq!(of(&rates, "newmad", "message_rate").len(), 2, "one for each driver: {rates:?}");
    let mut sizes = vec!["--size", "100,100000"];
    sizes.extend(few);
    let bandwidth = bench("bandwidth", &sizes);
    assert_eq!(of(&bandwidth, "newmad", "bandwidth").len(), 8, "{bandwidth:?}");
    let mut threads = vec!["--threads", "1,5"];
    threads.extend(few);
    let latency = bench("mt_latency", &threads);
    assert_eq!(of(&latency, "newmad", "half_round_trip").len(), 8, "{latency:?}");
    assert_eq!(of(&latency, "newmad", "thread_growth").len(), 8, "{latency:?}");
}

#[test]
fn a_library_is_built_once_run_and_compared() {
    let here = Here::new("honest");
    here.library("openmpi5", HONEST);
    let mut latency = command(&here.0, "newmad,openmpi5", "latency");
    let output = latency.args(["--size", "1,100"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let found = objects(&output);
    let theirs = of(&found, "openmpi5", "half_round_trip");
    assert_eq!(theirs.len(), 2);
    for object in theirs {
        assert_eq!((&object["n"], &object["median"]), (&4.into(), &0.5.into()), "{object}");
        assert_eq!(object["config"]["mode"], "none", "{object}");
    }
    assert_eq!(of(&found, "newmad", "peer_ratio").len(), 2);
    let built = fs::read_dir(here.0.join("cache/mad/peers")).unwrap().count();
    assert_eq!(built, 1);
}

#[test]
fn a_library_that_is_missing_is_said_in_one_line_and_left_out() {
    let here = Here::new("missing");
    let mut rate =
        command(&here.0, "newmad,openmpi,mpich,openmpi5,openmpi5-ucx,mpich5,impi", "rate");
    let output = rate.env("PATH", &here.0).output().unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for library in ["openmpi", "mpich", "openmpi5", "openmpi5-ucx", "mpich5", "impi"] {
        let about = format!("left out: {library}: ");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(&about)).collect();
        assert!(lines.len() == 1 && lines[0].contains("install"), "{library}: {said}");
    }
    assert!(objects(&output).iter().all(|object| object["config"]["library"] == "newmad"));
}

#[test]
fn one_that_says_something_else_or_fails_is_named_and_the_rest_goes_on() {
    let here = Here::new("wrong");
    here.library("openmpi5", "echo '{\"Samples\":[7,\"half_round_trip\",[0.5]]}'");
    here.library("mpich5", "echo 'no network' >&2; exit 3");
    here.library("impi", "exit 0");
    let output = beside(&here.0, "newmad,openmpi5,mpich5,impi", "rate");
    let said = err(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for words in [
        "openmpi5: its program stream says \"{\\\"Samples\\\":[7,",
        "mpich5: its program stream ended with exit status: 3: no network",
        "impi: its program stream measured too little",
    ] {
        assert_eq!(said.matches(words).count(), 1, "{words}: {said}");
    }
    let found = objects(&output);
    assert_eq!(of(&found, "newmad", "message_rate").len(), 1);
    assert!(found.iter().all(|object| object["config"]["library"] == "newmad"));
}

#[test]
fn where_no_library_can_be_measured_the_option_is_refused() {
    let output = common::run(&["bench", "idle", "--peers-dir", "/tmp"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("--peers-dir"), "{}", err(&output));
}

#[test]
fn peers_are_those_who_are_here() {
    let here = Here::new("peers");
    here.library("mpich5", HONEST);
    here.library("impi", HONEST);
    // Debian's libraries, which may be installed on this machine, are not to be found.
    let tools = here.0.join("tools");
    fs::create_dir_all(&tools).unwrap();
    for tool in ["cp", "dirname"] {
        let path = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(tool));
        let found = path.into_iter().find(|path| path.is_file()).unwrap();
        std::os::unix::fs::symlink(found, tools.join(tool)).unwrap();
    }
    let mut command = mad(&["bench", "latency", "--json", "--driver", "shm", "--size", "1"]);
    command.args(["--iters", "20", "--rounds", "1", "--timeout", "100", "--peers", "--peers-dir"]);
    command.arg(&here.0).env("XDG_CACHE_HOME", here.0.join("cache")).env("PATH", &tools);
    let output = command.output().unwrap();
    let said = err(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("not here: openmpi, mpich, openmpi5, openmpi5-ucx ("), "{said}");
    assert!(said.contains("left out: madmpi: there is no"), "{said}");
    let objects = objects(&output);
    for library in ["newmad", "mpich5", "impi"] {
        assert_eq!(of(&objects, library, "half_round_trip").len(), 1, "{library}: {said}");
    }
    assert!(of(&objects, "impi-async", "half_round_trip").is_empty());
    assert_eq!(of(&objects, "newmad", "peer_ratio").len(), 1);
}
