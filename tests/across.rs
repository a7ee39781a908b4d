//! `mad bench` that a process manager has started with several ranks: the same figures, and nothing remains whichever
//! rank dies.

mod common;
#[path = "../newmad-rs/tests/common/managers.rs"]
mod managers;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use common::machines::Machines;
use common::{err, eventually, mad, out, processes_with};
use serde_json::Value;

const MAD: &str = env!("CARGO_BIN_EXE_mad");

/// `mad run -n ranks mad bench …`.
fn bench(ranks: u32, options: &[&str]) -> Command {
    let ranks = ranks.to_string();
    mad(&[&["run", "-n", &ranks, MAD, "bench"], options].concat())
}

/// What was measured, but for the figures.
fn measured(lines: &str) -> BTreeSet<String> {
    let objects = lines.lines().filter(|line| line.starts_with('{'));
    objects
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            format!("{} {} {} {}", line["config"], line["metric"], line["unit"], line["n"])
        })
        .collect()
}

const LATENCY: [&str; 12] = [
    "latency",
    "--driver",
    "tcp,shm",
    "--library",
    "newmad,bare",
    "--size",
    "1,2048",
    "--iters",
    "20",
    "--rounds",
    "2",
    "--json",
];

#[test]
fn several_ranks_measure_what_one_does() {
    let alone = mad(&[&["bench"][..], &LATENCY].concat()).output().unwrap();
    let expected = measured(&out(&alone));
    assert_eq!(expected.len(), 16, "{}", out(&alone));
    for ranks in [1, 2, 3] {
        let output = bench(ranks, &LATENCY).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert_eq!(measured(&out(&output)), expected);
        assert_eq!(out(&output).lines().count(), expected.len(), "{}", out(&output));
        assert_eq!(err(&output).contains("process 1"), ranks > 1, "{}", err(&output));
    }
}

fn start_it_too(started: &mut [Option<Command>]) {
    let alone = mad(&[&["bench"][..], &LATENCY].concat()).output().unwrap();
    let expected = measured(&out(&alone));
    for manager in started.iter_mut().flatten() {
        manager.arg(MAD).arg("bench").args(LATENCY);
        let ended = managers::run(manager, std::time::Duration::from_secs(100));
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(measured(&ended.text), expected, "{ended:#?}");
    }
}

#[test]
fn process_managers_of_others_start_it_too() {
    start_it_too(&mut [managers::hydra(2), managers::prrte(2)]);
}

/// A process manager of one serves as many as a script starts; of several, one.
#[test]
fn a_script_may_start_several_of_one_rank() {
    let script = "\"$0\" bench \"$@\" && \"$0\" bench \"$@\"";
    let few =
        ["latency", "--driver", "shm", "--size", "1", "--iters", "5", "--rounds", "1", "--json"];
    for (ranks, status) in [("1", Some(0)), ("2", Some(1))] {
        let words = [&["run", "-n", ranks, "sh", "-c", script, MAD][..], &few].concat();
        let output = mad(&words).output().unwrap();
        assert_eq!(output.status.code(), status, "{}", err(&output));
        let lines = if ranks == "1" { 6 } else { 3 };
        assert_eq!(out(&output).lines().count(), lines, "{}", out(&output));
        assert_eq!(
            err(&output).contains("serves one `mad bench`"),
            ranks == "2",
            "{}",
            err(&output)
        );
    }
}

#[test]
fn slurm_starts_it_too() {
    let two_nodes = |kind| {
        let mut manager = managers::slurm(2, kind)?;
        manager.args(["-N", "2"]);
        Some(manager)
    };
    start_it_too(&mut [two_nodes("pmi2"), two_nodes("pmix")]);
}

#[test]
fn a_job_of_more_processes_than_ranks_goes_round() {
    let few = [
        "--op",
        "barrier,bcast",
        "--members",
        "2,8",
        "--size",
        "8",
        "--iters",
        "3",
        "--rounds",
        "1",
    ];
    let output =
        bench(2, &[&["coll", "--driver", "tcp", "--json"][..], &few].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("processes 1, 3, 5, 7"), "{}", err(&output));
    assert!(out(&output).lines().count() >= 4, "{}", out(&output));
}

/// A bench in which one waits long for the other, by processes that carry a mark.
struct Waiting {
    top: Child,
    mark: String,
}

impl Waiting {
    /// With at least one round behind it, if it is to be interrupted.
    fn start(name: &str, rounds: bool) -> Waiting {
        let mark = format!("MAD_TEST_MARK=across-{name}-{}", std::process::id());
        let (variable, value) = mark.split_once('=').unwrap();
        let seconds = if rounds { "1" } else { "600" };
        let options =
            ["idle", "--driver", "tcp", "--seconds", seconds, "--rounds", "1000", "--json"];
        let top = bench(2, &options)
            .env(variable, value)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let waiting = Waiting { top, mark };
        let mut seen = BTreeSet::new();
        let least = if rounds { 2 } else { 1 };
        assert!(
            eventually(|| {
                seen.extend(waiting.find("worker", Some(1)));
                seen.len() >= least && waiting.find("worker", Some(0)).is_some()
            }),
            "no worker has come"
        );
        waiting
    }

    /// The process that was started with this subcommand, as that rank of its launcher.
    fn find(&self, subcommand: &str, rank: Option<u32>) -> Option<u32> {
        let fits = |pid: &u32| {
            let read = |name| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let words = read("cmdline");
            let rank = rank.map(|rank| format!("PMI_RANK={rank}"));
            words.split(|&byte| byte == 0).nth(1) == Some(subcommand.as_bytes())
                && rank.is_none_or(|rank| {
                    read("environ").split(|&byte| byte == 0).any(|word| word == rank.as_bytes())
                })
        };
        processes_with(&self.mark).into_iter().find(fits)
    }

    fn signal(&self, subcommand: &str, rank: u32, signal: i32) {
        let pid = self.find(subcommand, Some(rank)).expect("it is there");
        // SAFETY: takes no pointers; its parent has not waited for it, since it still runs.
        unsafe { libc::kill(pid as i32, signal) };
    }

    /// Waits for its end, after which nothing may be there.
    fn end(self) -> Output {
        let output = self.top.wait_with_output().unwrap();
        assert!(
            eventually(|| processes_with(&self.mark).is_empty()),
            "{:?} remain",
            processes_with(&self.mark)
        );
        output
    }
}

#[test]
fn a_worker_elsewhere_that_is_killed_is_named() {
    let waiting = Waiting::start("worker", false);
    waiting.signal("worker", 1, libc::SIGKILL);
    let output = waiting.end();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let said = err(&output);
    assert!(said.contains("of rank 1 on ") && said.contains("was killed by SIGKILL"), "{said}");
}

#[test]
fn a_rank_that_is_killed_is_named() {
    let waiting = Waiting::start("agent", false);
    waiting.signal("bench", 1, libc::SIGKILL);
    let output = waiting.end();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let said = err(&output);
    assert!(said.contains("process manager's rank 1 on ") && said.contains(" is gone"), "{said}");
}

#[test]
fn when_rank_0_is_killed_the_others_end_and_say_why() {
    let waiting = Waiting::start("first", false);
    waiting.signal("bench", 0, libc::SIGKILL);
    let output = waiting.end();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("rank 0 is gone"), "{}", err(&output));
}

#[test]
fn an_interruption_leaves_what_was_measured() {
    let waiting = Waiting::start("interrupted", true);
    waiting.signal("bench", 0, libc::SIGINT);
    let output = waiting.end();
    assert_eq!(output.status.code(), Some(130), "{}", err(&output));
    assert_eq!(measured(&out(&output)).len(), 2, "{}", out(&output));
}

#[test]
fn a_time_limit_has_processes_everywhere_say_what_they_do() {
    // Until then all have to run: one that has not begun has nothing to say.
    let options = ["idle", "--driver", "tcp", "--seconds", "600", "--timeout", "15"];
    let output = bench(2, &options).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = err(&output);
    for rank in ["[0] ", "[1] "] {
        let of_rank = |line: &&str| line.starts_with(rank) && line.contains("virtual processor");
        assert!(said.lines().any(|line| of_rank(&line)), "{said}");
    }
}

#[test]
fn what_several_machines_cannot_measure_is_said() {
    let output =
        bench(2, &["overhead", "--iters", "2", "--rounds", "1", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("overhead has one process"), "{}", err(&output));
    let options =
        ["rate", "--library", "newmad,mpich", "--driver", "tcp", "--iters", "2", "--json"];
    let output = bench(2, &options).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(
        err(&output).contains("MPI libraries: they have launchers of their own"),
        "{}",
        err(&output)
    );
    let output = mad(&["run", "-n", "2", MAD, "report"]).current_dir("/tmp").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert_eq!(err(&output).matches("measures on one machine").count(), 1, "{}", err(&output));
    let output = bench(2, &["latency", "--size", "huge"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert_eq!(err(&output).matches("huge").count(), 1, "{}", err(&output));
}

/// Starts each rank by a shell that does this first.
fn by_shell(first: &str, options: &[&str]) -> Command {
    let script = format!("{first}; exec \"$0\" bench \"$@\"");
    mad(&[&["run", "-n", "2", "sh", "-c", &script, MAD], options].concat())
}

#[test]
fn a_rank_that_cannot_serve_is_named_with_the_reason() {
    for (first, expected) in [
        (
            "[ $PMI_RANK = 0 ] || export NMAD_TCP_ADDRESS=203.0.113.9",
            "203.0.113.9: it cannot be listened on",
        ),
        (
            "[ $PMI_RANK = 0 ] || export NMAD_TCP_ADDRESS=here",
            "'here' is not an IPv4 or IPv6 address",
        ),
        (
            "[ $PMI_RANK = 0 ] || export PIOM_BUSY_WAIT_USEC=long",
            "[1] mad: bench latency: PIOM_BUSY_WAIT_USEC",
        ),
    ] {
        let output = by_shell(first, &LATENCY).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{first}: {}", err(&output));
        assert!(err(&output).contains(expected), "{expected}: {}", err(&output));
        assert_eq!(out(&output), "");
    }
}

/// Addresses on which a process listens.
fn listens(pid: u32) -> Vec<SocketAddr> {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links: Vec<String> = fds
        .filter_map(|fd| Some(std::fs::read_link(fd.path()).ok()?.to_string_lossy().into_owned()))
        .collect();
    let listening = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let inode = format!("socket:[{}]", words.get(9)?);
        let port = u16::from_str_radix(words.get(1)?.split_once(':')?.1, 16).ok()?;
        let own = words[3] == "0A" && links.contains(&inode);
        own.then(|| SocketAddr::from(([127, 0, 0, 1], port)))
    };
    table.lines().skip(1).filter_map(listening).collect()
}

#[test]
fn strangers_at_the_door_get_nowhere_and_disturb_nobody() {
    let waiting = Waiting::start("strangers", true);
    let agent = waiting.find("bench", Some(1)).unwrap();
    let door = listens(agent)[0];
    let call = || TcpStream::connect(door).unwrap();
    // Many that say nothing, and one after another that say the wrong thing.
    let silent: Vec<TcpStream> = (0..200).map(|_| call()).collect();
    let mut hello = b"mad1agnt\x02".to_vec();
    hello.extend([7; 16]);
    let overlong = vec![0xff; 100_000];
    let early = [&hello[..], &[1; 32]].concat();
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &hello[..9], &early, &overlong] {
        let mut caller = call();
        let _ = caller.write_all(bytes); // it may be sent away before it has said all
        let _ = caller.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = caller.read_to_end(&mut answer);
        // A challenge at the most; the byte that admits comes after it.
        assert!(answer.len() <= 48, "{bytes:?}: {answer:?}");
    }
    drop(silent);
    assert_eq!(waiting.find("bench", Some(1)), Some(agent));
    let before = waiting.find("worker", Some(1));
    assert!(eventually(|| {
        let now = waiting.find("worker", Some(1));
        now.is_some() && now != before
    }));
    waiting.signal("bench", 0, libc::SIGINT);
    let output = waiting.end();
    assert_eq!(output.status.code(), Some(130), "{}", err(&output));
    assert!(!err(&output).contains("panicked"), "{}", err(&output));
}

#[test]
fn two_machines_measure_over_the_network_between_them() {
    let Some(machines) = Machines::new() else {
        return managers::skip(
            "no network namespaces can be made here (that needs root, ip, unshare, nsenter)",
        );
    };
    let output = by_shell(&machines.shell(), &LATENCY).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("left out: driver shm"), "{}", err(&output));
    let lines = measured(&out(&output));
    assert!(lines.len() == 8 && lines.iter().all(|line| line.contains("tcp")), "{lines:#?}");
    // The default address is that of the machine itself, for itself.
    let output =
        by_shell(&machines.shell(), &LATENCY).env("ADDRESS", "127.0.0.1").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("set NMAD_TCP_ADDRESS on each machine"), "{}", err(&output));
}

/// Clocks that are two weeks apart.
#[test]
fn a_receive_is_timed_by_the_senders_clock() {
    let apart = "unshare --time --monotonic 1200000 --fork --kill-child";
    let mut can = Command::new("sh");
    can.args(["-c", &format!("{apart} true")]).stderr(Stdio::null());
    if !can.status().is_ok_and(|status| status.success()) {
        return managers::skip("no time namespaces can be made here (that needs root)");
    }
    let first = format!("[ $PMI_RANK = 0 ] || exec {apart} \"$0\" bench \"$@\"");
    let few =
        ["--driver", "shm", "--size", "4", "--compute-us", "1000", "--iters", "3", "--rounds", "1"];
    let options = [&["overlap", "--side", "receiver,sender", "--json"][..], &few].concat();
    let output = by_shell(&first, &options).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    let received: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["metric"] == "recv_time")
        .collect();
    assert_eq!(received.len(), 4, "{text}");
    for line in received {
        // A minute at the most, on a machine however busy; unequal clocks give days or nothing.
        assert!(line["max"].as_f64().unwrap() < 60e6, "{line}");
    }
}
