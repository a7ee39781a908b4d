//! Starts this very test binary again as the ranks of a session, and serves them PMI-1.
//!
//! A test calls [`launch`] with the name of a scenario; each process it starts runs only the test `child`, which
//! calls the scenario of that name. Nothing is mocked: processes, sockets and shared memory are real.
#![allow(dead_code)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Which scenario a started process runs.
pub(crate) const SCENARIO: &str = "NEWMAD_TEST_SCENARIO";

#[derive(Default)]
struct Kvs {
    values: HashMap<String, String>,
    arrived: usize,
    generation: usize,
}

struct Server {
    kvs: Mutex<Kvs>,
    changed: Condvar,
    size: usize,
}

/// What becomes of the values that a rank publishes.
pub(crate) type Rewrite = dyn Fn(usize, &str) -> String + Send + Sync;

fn serve(server: &Server, socket: UnixStream, rank: usize, rewrite: &Rewrite) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut writer = socket;
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
        let words: HashMap<&str, &str> =
            line.split_ascii_whitespace().filter_map(|word| word.split_once('=')).collect();
        let answer = match words.get("cmd").copied() {
            Some("init") => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
            Some("get_maxes") => {
                "cmd=maxes kvsname_max=256 keylen_max=256 vallen_max=4096".to_owned()
            }
            Some("get_my_kvsname") => "cmd=my_kvsname kvsname=test".to_owned(),
            Some("put") => {
                let mut kvs = server.kvs.lock().unwrap();
                kvs.values.insert(words["key"].to_owned(), rewrite(rank, words["value"]));
                "cmd=put_result rc=0 msg=success".to_owned()
            }
            Some("get") => {
                let kvs = server.kvs.lock().unwrap();
                match kvs.values.get(words["key"]) {
                    Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                    None => "cmd=get_result rc=-1 msg=key_not_found".to_owned(),
                }
            }
            Some("barrier_in") => {
                let mut kvs = server.kvs.lock().unwrap();
                let generation = kvs.generation;
                kvs.arrived += 1;
                if kvs.arrived == server.size {
                    kvs.arrived = 0;
                    kvs.generation += 1;
                    server.changed.notify_all();
                }
                while kvs.generation == generation {
                    kvs = server.changed.wait(kvs).unwrap();
                }
                "cmd=barrier_out".to_owned()
            }
            Some("finalize") => "cmd=finalize_ack".to_owned(),
            other => panic!("unknown PMI command {other:?} in {line:?}"),
        };
        line.clear();
        if writer.write_all(format!("{answer}\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit code; `None`: killed by a signal.
    pub(crate) code: Option<i32>,
    /// What it wrote to standard error and output.
    pub(crate) text: String,
}

/// The processes of a session.
pub(crate) struct Job {
    children: Vec<Child>,
    readers: Vec<std::thread::JoinHandle<String>>,
}

/// Starts `size` processes that run `scenario`.
pub(crate) fn launch(scenario: &str, size: usize, env: &[(&str, &str)]) -> Job {
    launch_some(scenario, size, size, env)
}

/// Starts only the first `present` of `size` processes that run `scenario`.
pub(crate) fn launch_some(
    scenario: &str,
    size: usize,
    present: usize,
    env: &[(&str, &str)],
) -> Job {
    start(scenario, size, present, &|_| env.to_vec(), Arc::new(|_, value| value.to_owned()))
}

/// Starts `size` processes that run `scenario`, each in its own environment; what they publish goes through `rewrite`.
pub(crate) fn start<'a>(
    scenario: &str,
    size: usize,
    present: usize,
    env: &dyn Fn(usize) -> Vec<(&'a str, &'a str)>,
    rewrite: Arc<Rewrite>,
) -> Job {
    let server =
        Arc::new(Server { kvs: Mutex::new(Kvs::default()), changed: Condvar::new(), size });
    let (mut children, mut readers) = (Vec::new(), Vec::new());
    for rank in 0..present {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let theirs = OwnedFd::from(theirs);
        let fd = theirs.as_raw_fd();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(SCENARIO, scenario)
            .env("PMI_FD", fd.to_string())
            .env("PMI_RANK", rank.to_string())
            .env("PMI_SIZE", size.to_string())
            .env("MAD_LOCAL_RANK", rank.to_string())
            .env("MAD_LOCAL_SIZE", size.to_string())
            .envs(env(rank))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: fcntl and prctl are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                libc::fcntl(fd, libc::F_SETFD, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        drop(theirs);
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        readers.push(std::thread::spawn(move || {
            let errors = std::thread::spawn(move || {
                let mut text = String::new();
                let _ = err.read_to_string(&mut text);
                text
            });
            let mut text = String::new();
            let _ = out.read_to_string(&mut text);
            text + &errors.join().unwrap()
        }));
        children.push(child);
        let server = server.clone();
        let rewrite = rewrite.clone();
        std::thread::spawn(move || serve(&server, ours, rank, &*rewrite));
    }
    Job { children, readers }
}

impl Job {
    /// Sends SIGKILL to a rank.
    pub(crate) fn kill(&mut self, rank: usize) {
        self.children[rank].kill().unwrap();
    }

    /// Waits for all, for `limit` at the most.
    pub(crate) fn end(mut self, limit: Duration) -> Vec<Ended> {
        let deadline = Instant::now() + limit;
        let mut codes = vec![None; self.children.len()];
        let mut late = false;
        loop {
            let mut running = false;
            for (child, code) in self.children.iter_mut().zip(&mut codes) {
                if code.is_none() {
                    *code = child.try_wait().unwrap();
                    running |= code.is_none();
                }
            }
            if !running {
                break;
            }
            if Instant::now() > deadline && !late {
                late = true;
                for child in &mut self.children {
                    let _ = child.kill();
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let ended: Vec<Ended> = self
            .readers
            .drain(..)
            .zip(codes)
            .map(|(reader, status)| Ended {
                code: status.and_then(|status| status.code()),
                text: reader.join().unwrap(),
            })
            .collect();
        assert!(!late, "not over after {limit:?}: {ended:#?}");
        ended
    }

    /// Waits for all; every one must succeed.
    pub(crate) fn succeed(self, limit: Duration) -> Vec<Ended> {
        let ended = self.end(limit);
        // All of them are shown: the rank that complains of another one's end is seldom the one that failed first.
        let well = ended.iter().all(|end| end.code == Some(0));
        assert!(well, "not all succeeded; by rank: {ended:#?}");
        ended
    }
}

/// The time in microseconds that all processes of this machine have in common.
pub(crate) fn micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// The times behind a word at the beginning of a line, and what follows each.
pub(crate) fn told<'a>(text: &'a str, word: &str) -> impl Iterator<Item = (u64, &'a str)> {
    let lines = text.lines().filter_map(move |line| line.strip_prefix(word));
    lines.map(|line| {
        let line = line.trim();
        let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
        (time.parse().unwrap(), rest)
    })
}

/// The byte at `index` of message `number`: any mix-up shows.
pub(crate) fn byte(number: u64, index: usize) -> u8 {
    let mixed = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64)
        .wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 56) as u8
}

/// Message `number` of that length.
pub(crate) fn message(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|index| byte(number, index)).collect()
}

/// The drivers that a test tries, as `NMAD_DRIVER` names them: those that `NEWMAD_TEST_DRIVERS` lists, separated by
/// commas (`ci/verbs.sh`), else the usual ones.
pub(crate) fn drivers(usual: &[&'static str]) -> Vec<&'static str> {
    match std::env::var("NEWMAD_TEST_DRIVERS") {
        Ok(asked) => asked.leak().split(',').collect(),
        Err(_) => usual.to_vec(),
    }
}

/// As [`drivers`], for tests that set something else, too.
pub(crate) fn settings(
    usual: &[(&'static str, &'static str)],
) -> Vec<(&'static str, &'static str)> {
    match std::env::var("NEWMAD_TEST_DRIVERS") {
        Ok(_) => drivers(&[]).into_iter().map(|driver| ("NMAD_DRIVER", driver)).collect(),
        Err(_) => usual.to_vec(),
    }
}
