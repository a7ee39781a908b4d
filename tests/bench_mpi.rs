//! `mad bench` beside MPI libraries: those that are missing, and programs that say something else than they should.
//! What stands for a library here is a compiler that makes a shell script, and a launcher that runs it.

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

    fn executable(&self, path: &str, script: &str) {
        let path = self.0.join(path);
        let text = path.with_extension("text");
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
        // A process writes the file that is executed. The child of another test, between its fork and its exec, has
        // what this process has open: a file that it can write to is "text file busy".
        let copied = Command::new("cp").arg("--preserve=mode").args([&text, &path]).status();
        assert!(copied.unwrap().success());
        fs::remove_file(&text).unwrap();
    }

    /// A library below it whose programs are this script.
    fn library(&self, name: &str, script: &str) {
        fs::create_dir_all(self.0.join(name).join("bin")).unwrap();
        let executable =
            |what: &str, text: &str| self.executable(&format!("{name}/bin/{what}"), text);
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
    timed(here, libraries, bench, "100")
}

/// With so many seconds for each job.
fn timed(here: &Path, libraries: &str, bench: &str, seconds: &str) -> Command {
    let mut command = mad(&["bench", bench, "--json", "--driver", "shm", "--library", libraries]);
    command.args(["--iters", "20", "--rounds", "2", "--timeout", seconds, "--peers-dir"]).arg(here);
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
const HONEST: &str = r#"shift 2; for point; do
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
    let mut ranks = vec!["--ranks", "1,3", "--driver", "shm", "--compute-us", "10"];
    ranks.extend(few);
    let apps = bench("apps", &ranks);
    assert_eq!(of(&apps, "newmad", "mpi_time").len(), 2, "one for each number of ranks: {apps:?}");
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
    // MPICH's commands come in another package than what they compile with.
    here.executable("mpicc.mpich", "echo 'x.h:1:10: fatal error: mpi.h: No such file' >&2; exit 1");
    here.executable("mpiexec.mpich", "exit 1");
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

/// Says everything, and that it was everything, and does not end.
const ENDLESS: &str = r#"shift 2; for point; do
    printf '{"Samples":[%s,"half_round_trip",[0.5,0.5]]}\n{"Progress":1.0}\n' "${point%%:*}"
done; sleep 600"#;

#[test]
fn what_a_library_measured_counts_even_if_its_processes_do_not_end() {
    let here = Here::new("endless");
    here.library("mpich5", ENDLESS);
    let mut latency = command(&here.0, "newmad,mpich5", "latency");
    let output = latency.args(["--size", "1"]).output().unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let words = "mpich5: its program latency measured everything and did not end";
    assert_eq!(said.matches(words).count(), 2, "once in each round: {said}");
    let found = objects(&output);
    assert_eq!(of(&found, "mpich5", "half_round_trip")[0]["n"], 4);
    assert_eq!(of(&found, "newmad", "peer_ratio").len(), 1);
}

#[test]
fn a_library_that_hangs_is_left_out_after_its_time_and_the_rest_goes_on() {
    let here = Here::new("hangs");
    here.library("mpich5", "sleep 600");
    here.library("impi", HONEST);
    // Long enough for newmad's processes on a busy machine; the library takes all of it, once.
    let mut latency = timed(&here.0, "mpich5,newmad,impi", "latency", "20");
    let output = latency.args(["--size", "1"]).output().unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("time limit").count(), 1, "{said}");
    assert!(said.contains("left out: ") && said.contains("library mpich5"), "{said}");
    let found = objects(&output);
    for library in ["newmad", "impi"] {
        assert_eq!(of(&found, library, "half_round_trip").len(), 1, "{library}: {said}");
    }
    assert!(of(&found, "mpich5", "half_round_trip").is_empty());
}

#[test]
fn more_samples_than_one_line_holds_are_all_counted() {
    let here = Here::new("many");
    here.library(
        "mpich5",
        r#"shift 2; for point; do
    printf '{"Samples":[%s,"half_round_trip",[0.5' "${point%%:*}"
    yes ,1.25 | head -n 400000 | tr -d '\n'
    echo ']]}'
done"#,
    );
    let mut latency = command(&here.0, "mpich5", "latency");
    let output = latency.args(["--size", "1"]).output().unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(0), "{}", &said[..said.len().min(500)]);
    assert_eq!(of(&objects(&output), "mpich5", "half_round_trip")[0]["n"], 800_002);
}

/// The real programs, on madmpi and on those of Debian's libraries that are here: as `mad bench --peers` has them.
#[test]
fn the_programs_measure_what_the_benches_do() {
    if Command::new("cc").arg("--version").output().is_err() {
        return eprintln!("SKIPPED: there is no C compiler");
    }
    let here = Here::new("real");
    let mut built = std::env::current_exe().unwrap();
    built.pop();
    let installed = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/madmpi-rs/tools/install"))
        .args([&here.0.join("madmpi"), &built])
        .env("MPIFORT_FC", "") // none of them is in Fortran
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", err(&installed));
    let of_computation = ["compute_time", "total_time", "slowdown", "slowdown_wall"];
    for (bench, options, metrics) in [
        ("submit", &["--size", "4,100000"][..], &["send_time", "submit_time", "sum_or_max"][..]),
        ("latency", &["--size", "8,100000"], &["half_round_trip"]),
        ("reactivity", &["--threads", "0,2"], &of_computation),
        ("idle", &["--seconds", "1"], &["cpu_time", "recv_time"]),
        ("overlap", &["--side", "sender", "--compute-us", "500"], &["overlap_ratio", "slowdown"]),
        ("apps", &["--compute-us", "50"], &["mpi_time", "compute_time", "total_time"]),
        ("coll", &["--members", "2", "--size", "13,1K", "--op", OPERATIONS], &["op_time"]),
        ("coll", &["--members", "2", "--compute-us", "50", "--op", OPERATIONS], &["overlap_ratio"]),
    ] {
        let mut command = mad(&["bench", bench, "--json", "--driver", "shm"]);
        command.args(["--library", "newmad,madmpi,openmpi,mpich", "--peers-dir"]).arg(&here.0);
        command.args(["--iters", "2", "--rounds", "1", "--timeout", "600"]).args(options);
        let output = command.env("XDG_CACHE_HOME", here.0.join("cache")).output().unwrap();
        let said = err(&output);
        let found = objects(&output);
        for metric in metrics {
            let ours = of(&found, "newmad", metric).len();
            assert!(ours > 0, "{bench} {metric}: {said}");
            for library in ["madmpi", "openmpi", "mpich"] {
                // One that is not here; or that took minutes, which on a full machine says nothing about the program.
                let out = said.lines().any(|line| {
                    line.contains("left out: ") && line.contains(library) && library != "madmpi"
                });
                let theirs = of(&found, library, metric).len();
                assert!(theirs > 0 || out, "{bench} {metric} {library}: {said}");
            }
        }
        // What does not compile is left out, too.
        assert!(!said.contains("error:"), "{bench}: {said}");
        if !of(&found, "mpich", metrics[0]).is_empty() {
            assert!(!of(&found, "newmad", "peer_ratio").is_empty(), "{bench}: {said}");
            assert!(!of(&found, "madmpi", "peer_ratio").is_empty(), "{bench}: {said}");
        }
    }
    // More ranks than most machines have cores: each program checks its own result.
    for (bench, options) in [("apps", ["--ranks", "3"]), ("coll", ["--members", "3"])] {
        let mut command =
            mad(&["bench", bench, "--json", "--driver", "shm", "--library", "madmpi"]);
        command.args(["--iters", "2", "--rounds", "1", "--timeout", "600", "--peers-dir"]);
        command.arg(&here.0).args(options);
        let output = command.env("XDG_CACHE_HOME", here.0.join("cache")).output().unwrap();
        assert!(output.status.success(), "{bench}: {}", err(&output));
    }
    collaborative(&here);
}

/// Ranks that share a process, in every way: where they do, the library tells by whom messages were found.
fn collaborative(here: &Here) {
    let mut command =
        mad(&["bench", "collaborative", "--json", "--work", "messages,schedule,exchange"]);
    command.args(["--iters", "5", "--rounds", "1", "--imbalance", "2", "--compute-us", "50"]);
    command.args(["--size", "100,64K", "--timeout", "600", "--peers-dir"]).arg(&here.0);
    let output = command.env("XDG_CACHE_HOME", here.0.join("cache")).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let found = objects(&output);
    let of = |way: &str, works: &[&str], metric: &str| -> Vec<f64> {
        let here = found.iter().filter(|line| {
            let config = &line["config"];
            config["way"] == way
                && works.iter().any(|work| config["work"] == *work)
                && line["metric"] == metric
        });
        here.map(|line| line["mean"].as_f64().unwrap()).collect()
    };
    let all = ["messages", "schedule", "exchange"];
    let distances = ["found_own", "found_near", "found_far", "found_elsewhere"];
    for way in
        ["collaborative", "calls", "processes", "wait", "switch", "idle", "tick", "block", "nodes"]
    {
        assert_eq!(of(way, &all, "wait_time").len(), 6, "{way}: {}", err(&output));
        // A collective may go without messages.
        let told = distances.map(|metric| of(way, &["messages"], metric));
        if ["calls", "processes"].contains(&way) {
            assert!(told.iter().all(Vec::is_empty), "{way}: {told:?}");
            continue;
        }
        for point in 0..2 {
            let sum: f64 = told.iter().map(|shares| shares[point]).sum();
            assert!((sum - 1.0).abs() < 1e-3, "{way}: {told:?}");
        }
    }
    assert_eq!(of("collaborative", &all, "wait_ratio").len(), 6);
}

/// All that `coll` knows.
const OPERATIONS: &str =
    "barrier,bcast,reduce,allreduce,gather,scatter,allgather,alltoall,reduce_scatter,scan";

#[test]
fn each_application_and_number_of_ranks_is_run_by_itself_and_may_fail_by_itself() {
    let here = Here::new("apps");
    here.library(
        "mpich5",
        r#"case "$0" in *sort) echo "wrong result" >&2; exit 3 ;; esac
shift 2; for point; do printf '{"Samples":[%s,"total_time",[5,7]]}\n' "${point%%:*}"; done"#,
    );
    let mut apps = command(&here.0, "mpich5", "apps");
    let output = apps.args(["--ranks", "2,3", "--workload", "halo,cg,sort"]).output().unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("left out: ").count(), 2, "{said}");
    for ranks in ["2", "3"] {
        let words = format!("ranks {ranks}, program sort");
        assert_eq!(said.matches(&words).count(), 1, "{said}");
    }
    let measured: Vec<(String, u64, f64)> = of(&objects(&output), "mpich5", "total_time")
        .iter()
        .map(|object| {
            let config = &object["config"];
            let text = config["workload"].as_str().unwrap().to_owned();
            (text, config["ranks"].as_u64().unwrap(), object["mean"].as_f64().unwrap())
        })
        .collect();
    let expected = [("halo", 2), ("cg", 2), ("halo", 3), ("cg", 3)];
    for (workload, ranks) in expected {
        assert!(measured.contains(&(workload.to_owned(), ranks, 6.0)), "{measured:?}");
    }
    assert_eq!(measured.len(), expected.len(), "{measured:?}");
}

#[test]
fn where_no_library_can_be_measured_the_option_is_refused() {
    let output = common::run(&["bench", "rpc", "--peers-dir", "/tmp"]);
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
    command.args(["--iters", "20", "--rounds", "1", "--timeout", "600", "--peers", "--peers-dir"]);
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
