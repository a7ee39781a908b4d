//! The echo example: server and client as processes, with a thousand connections, and one of them killed.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{eventually, example, out};

/// A server and where it listens; killed when this is dropped.
struct Server(Child, String);

impl Server {
    fn start(mode: &str) -> Server {
        // It says a line for each client that is killed, which has no reader.
        let mut server = echo(mode, &["serve", "127.0.0.1:0"]);
        let mut server = server.stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Server(server, address)
    }

    fn ask(&self, mode: &str, connections: usize, requests: usize) -> Command {
        let (connections, requests) = (connections.to_string(), requests.to_string());
        let numbers = ["--connections", &connections, "--requests", &requests];
        echo(mode, &[&["ask", &self.1], &numbers[..]].concat())
    }

    /// Sockets that it has open: the one that listens, and one for each client that it has accepted.
    fn sockets(&self) -> usize {
        let Ok(open) = std::fs::read_dir(format!("/proc/{}/fd", self.0.id())) else { return 0 };
        let targets = open.flatten().filter_map(|one| std::fs::read_link(one.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn echo(mode: &str, args: &[&str]) -> Command {
    let mut command = Command::new(example("echo"));
    command.args(args).env("MARCEL_MODE", mode);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for its end, which comes: a process that hangs is killed and makes the test fail.
fn finish(mut child: Child) -> Output {
    let until = Instant::now() + Duration::from_secs(600);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// A thousand, or what the process may have.
fn many() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    (limit.rlim_cur.saturating_sub(60) as usize).min(1000)
}

/// Descriptors that a process has open.
fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// Waits until there are `wanted`, as long as more have come in the last 30 s; true if they came.
fn grows(wanted: usize, count: impl Fn() -> usize) -> bool {
    let mut most = 0;
    let more = |most: &mut usize| {
        let seen = count();
        let grown = seen > *most;
        *most = seen.max(*most);
        grown
    };
    while most < wanted {
        if !eventually(|| more(&mut most)) {
            return false;
        }
    }
    true
}

#[test]
fn a_thousand_connections_are_answered() {
    for mode in ["mono", "smp"] {
        let server = Server::start(mode);
        let client = finish(server.ask(mode, many(), 5).spawn().unwrap());
        assert!(client.status.success(), "{client:?}");
        let expected = format!("({} in ", many() * 5);
        assert!(out(&client).contains(&expected), "{client:?}");
        let idle = || descriptors(server.0.id()) < 60;
        assert!(eventually(idle), "{mode}: connections stay open: {}", descriptors(server.0.id()));
    }
}

#[test]
fn clients_of_a_killed_server_end_with_an_error() {
    for mode in ["mono", "smp"] {
        let mut server = Server::start(mode);
        let n = many();
        let before = server.sockets();
        let client = server.ask(mode, n, 1_000_000).spawn().unwrap();
        // All of them: one that is refused would be another failure.
        assert!(grows(before + n, || server.sockets()), "the client does not connect");
        server.0.kill().unwrap();
        let client = finish(client);
        assert_eq!(client.status.code(), Some(1), "{client:?}");
        let text = String::from_utf8_lossy(&client.stderr).into_owned();
        assert!(text.contains(&format!("{n} connections failed")), "{text}");
    }
}

#[test]
fn a_server_outlives_its_killed_clients() {
    for mode in ["mono", "smp"] {
        let server = Server::start(mode);
        let n = many();
        let mut client = server.ask(mode, n, 1_000_000).spawn().unwrap();
        let open = || descriptors(server.0.id());
        assert!(grows(n + 1, open), "the client does not connect");
        client.kill().unwrap();
        client.wait().unwrap();
        let next = finish(server.ask(mode, 10, 10).spawn().unwrap());
        assert!(next.status.success(), "{next:?}");
        let idle = || descriptors(server.0.id()) < 60;
        assert!(eventually(idle), "{mode}: connections stay open: {}", descriptors(server.0.id()));
    }
}

#[test]
fn a_server_without_descriptors_says_so_and_goes_on() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" serve 127.0.0.1:0"]).arg(example("echo"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut server = Server(server, line.trim().rsplit(' ').next().unwrap().to_owned());
    // More than it can have at once: those that it has end, then the others are accepted.
    let streams: Vec<_> =
        (0..80).map(|_| std::net::TcpStream::connect(&server.1).unwrap()).collect();
    let mut said = String::new();
    BufReader::new(server.0.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("RLIMIT_NOFILE") && said.contains("ulimit -n"), "{said}");
    // What else it says has no reader: it must not wait for one.
    let mut errors = server.0.stderr.take().unwrap();
    std::thread::spawn(move || errors.read_to_end(&mut Vec::new()));
    drop(streams);
    let client = finish(server.ask("smp", 10, 10).spawn().unwrap());
    assert!(client.status.success(), "{client:?}");
}

#[test]
fn the_help_says_what_there_is() {
    let help = finish(echo("smp", &["--help"]).spawn().unwrap());
    assert!(help.status.success());
    for word in ["serve", "ask", "--kernel-threads"] {
        assert!(out(&help).contains(word), "{help:?}");
    }
}
