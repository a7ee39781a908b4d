//! Sessions over InfiniBand and RoCE adapters: faults of adapters, and what is said where one cannot be used.
//!
//! `ci/verbs.sh` runs them in a guest kernel with two soft-RoCE adapters on network interfaces `dummy0` and `dummy1`,
//! which are set down and up here. Elsewhere most of them are skipped.

mod common;
#[path = "common/treated.rs"]
mod treated;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Job, launch, message, start};
use newmad::{ANY, Error, Session, Strided};
use treated::{WORDS, Words, alone, load};

const LIMIT: Duration = Duration::from_secs(600);
/// A machine that is busy may take its time for repairs.
const PATIENT: (&str, &str) = ("NMAD_REPAIR_MS", "30000");

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "load" => |session: &Session| load(session, 200_000),
        "alone" => |session: &Session| alone(session, 10_000),
        "alone, long" => |session: &Session| alone(session, 3_000_000),
        "pace" => pace,
        "stream" => stream,
        "moves" => moves,
        "long" => long,
        "long, little locked" => {
            become_nobody(LITTLE);
            long
        }
        "nothing" => |_: &Session| Ok(()),
        "unprivileged" => {
            become_nobody(64 * 1024);
            |_: &Session| Ok(())
        }
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

/// A user without privileges, who may lock so many bytes.
fn become_nobody(most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a local, and numbers.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit), 0);
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setgid(65534), 0);
        assert_eq!(libc::setuid(65534), 0);
    }
}

/// Memory that may be locked: enough for a link and for the first pieces of long messages, and for no others.
const LITTLE: u64 = 5 << 20;

/// Long messages both ways, of each kind, while some of their memory is mapped anew.
fn long(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    for round in 0..2 {
        for (tag, size) in [70_000, 300_000, 1 << 20, 9 << 20].into_iter().enumerate() {
            let (number, tag) = (round * 10 + tag as u64, tag as u64);
            let data = message(number, size);
            // Whole, into the memory of a receive that is posted before or afterwards, from this rank or from any.
            let early = (round % 2 == 0).then(|| session.irecv(peer, tag, vec![0; size]));
            let send = session.isend(peer, tag, data.clone())?;
            let receive = match early {
                Some(receive) => receive?,
                None => session.irecv(ANY, tag, vec![0; size])?,
            };
            let (got, status) = receive.wait()?;
            assert_eq!((status.len, status.source), (size, peer));
            assert!(got == data, "{size} bytes of round {round}");
            send.wait()?;
            // Too long for its receive.
            let mut short = vec![0; size / 2];
            let send = session.isend(peer, tag, data.clone())?;
            let refused = session.recv(peer, tag, &mut short).unwrap_err();
            assert!(matches!(refused, Error::Truncated { message, .. } if message == size));
            assert!(short == data[..size / 2]);
            send.wait()?;
            // In pieces on one side, synchronous.
            let column = Strided { block: 1000, stride: 1500, count: size / 1500 };
            let len = column.block * column.count;
            let mut room = vec![0; len];
            session.scope(|scope| {
                let receive = scope.irecv(peer, tag, &mut room)?;
                scope.isend_with(peer, tag, &data, column)?.wait()?;
                receive.wait().map(|_| ())
            })?;
            let expected = data.chunks(1500).take(column.count).flat_map(|part| &part[..1000]);
            assert!(room.iter().eq(expected));
            let options = newmad::SendOptions::new().sync();
            let send = session.isend_with(peer, tag, data.clone(), options)?;
            let to_self = session.isend(session.rank(), tag + 100, data.clone())?;
            assert_eq!(session.irecv(peer, tag, vec![0; size])?.wait()?.0, data);
            assert_eq!(session.irecv(session.rank(), tag + 100, vec![0; size])?.wait()?.0, data);
            to_self.wait()?;
            send.wait()?;
        }
    }
    session.barrier()
}

/// The nodes on which rank 1 receives, one after the other, and how many messages on each.
const NODES: [&str; 4] = ["numa:0", "numa:1", "numa:0", "numa:1"];
const EACH: u64 = 240;
/// Messages that rank 0 sends before it waits for an answer.
const TOGETHER: u64 = 8;

/// The length of a message: inside one packet, several, and what adapters read.
fn len_of(number: u64) -> usize {
    [8, 3000, 0, 12_000, 40_000, 500, 1, 100_000][(number % 8) as usize]
}

/// Rank 0 sends to rank 1, whose messages are received by threads on one node after the other. Both print what they have counted.
fn moves(session: &Session) -> Result<(), Error> {
    let words = Words::there();
    let all = NODES.len() as u64 * EACH;
    if session.rank() == 0 {
        for first in (0..all).step_by(TOGETHER as usize) {
            let send = |number| session.isend(1, 5, message(number, len_of(number)));
            let sends: Result<Vec<_>, Error> = (first..first + TOGETHER).map(send).collect();
            sends?.into_iter().try_for_each(|send| send.wait().map(|_| ()))?;
            session.recv(1, 6, &mut [])?;
            if first == 0 {
                words.say("running0");
            }
        }
    } else {
        for (node, first) in NODES.into_iter().zip((0..all).step_by(EACH as usize)) {
            let session = session.clone();
            let receive = move || -> Result<(), Error> {
                for number in first..first + EACH {
                    let mut buffer = vec![0; 100_000];
                    let status = session.recv(0, 5, &mut buffer)?;
                    assert_eq!(status.len, len_of(number), "message {number}");
                    assert!(
                        buffer[..status.len] == message(number, status.len),
                        "message {number}"
                    );
                    if number + 1 == all {
                        tell_figures(&session);
                    }
                    if (number + 1).is_multiple_of(TOGETHER) {
                        session.send(0, 6, &[])?;
                    }
                }
                Ok(())
            };
            let thread = marcel::Builder::new().bind(node.parse().unwrap()).spawn(receive).unwrap();
            thread.join().unwrap()?;
        }
    }
    if session.rank() == 0 {
        tell_figures(session);
    }
    session.barrier()
}

/// Prints what the session has counted by now.
fn tell_figures(session: &Session) {
    // Takes the engine's lock: what its holder counts is counted then.
    session.connections();
    for source in session.manager().counters().sources {
        for (name, figure) in source.figures {
            println!("FIGURE {name}: {figure}");
        }
    }
}

/// What a process has counted; 0, if it has said nothing of it.
fn figure(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("FIGURE {name}: ")));
    line.map_or(0, |figure| figure.parse().unwrap())
}

/// Sizes of messages that go to and fro, and how often.
const PACES: [(usize, u32); 4] = [(8, 3000), (4096, 3000), (65_536, 600), (1 << 20, 100)];

/// Rank 0 prints the time of a round trip of each size.
fn pace(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    let mut buffer = vec![1; 1 << 20];
    for (size, rounds) in PACES {
        let data = &mut buffer[..size];
        session.barrier()?;
        let mut begin = Instant::now();
        for round in 0..rounds + rounds / 10 {
            if round == rounds / 10 {
                begin = Instant::now();
            }
            if session.rank() == 0 {
                session.send(peer, 1, data)?;
                session.recv(peer, 1, data)?;
            } else {
                session.recv(peer, 1, data)?;
                session.send(peer, 1, data)?;
            }
        }
        if session.rank() == 0 {
            println!("PACE {size} {}", begin.elapsed().as_secs_f64() * 1e6 / f64::from(rounds));
        }
    }
    Ok(())
}

/// Microseconds of a round trip by `ibv_rc_pingpong`, which sleeps on its completion channel, over the same adapter.
fn pace_of_pingpong(size: usize, rounds: u32) -> f64 {
    let types = "/sys/class/infiniband/rxe0/ports/1/gids";
    let is_ipv4 = |place: &usize| {
        std::fs::read_to_string(format!("{types}/{place}")).is_ok_and(|gid| gid.contains(":ffff:"))
    };
    let gid = (0..16).find(is_ipv4).unwrap().to_string();
    let (size, rounds) = (size.to_string(), rounds.to_string());
    let command = || {
        let mut command = Command::new("ibv_rc_pingpong");
        command.args(["-e", "-d", "rxe0", "-g", &gid, "-s", &size, "-n", &rounds, "-m", "4096"]);
        command.stdout(std::process::Stdio::piped());
        command
    };
    let mut server = command().spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let client = command().arg("127.0.0.1").output().unwrap();
    server.wait().unwrap();
    let text = String::from_utf8_lossy(&client.stdout);
    let word = text.lines().find(|line| line.ends_with("usec/iter")).and_then(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words.get(words.len() - 2)?.parse().ok()
    });
    word.unwrap_or_else(|| panic!("{text}"))
}

/// How fast newmad is beside a program that does nothing but this, in turns: only the ratio says something, since a
/// guest has one processor and its adapter is made of software.
#[test]
#[ignore = "a measurement: cargo test --release -p newmad --test verbs -- --ignored --nocapture, in the guest"]
fn beside_rc_pingpong() {
    if !is_guest("a measurement", 1) {
        return;
    }
    let mut ratios = [const { Vec::new() }; PACES.len()];
    for _ in 0..5 {
        let ended = launch("pace", 2, &[("NMAD_DRIVER", "verbs")]).succeed(LIMIT);
        let text = &ended[0].text;
        for (number, (size, rounds)) in PACES.into_iter().enumerate() {
            let theirs = pace_of_pingpong(size, rounds);
            let line = text.lines().find_map(|line| line.split_once(&format!("PACE {size} ")));
            let ours: f64 = line.unwrap().1.trim().parse().unwrap();
            ratios[number].push(theirs / ours);
        }
    }
    for ((size, _), ratios) in PACES.iter().zip(&mut ratios) {
        ratios.sort_by(f64::total_cmp);
        println!(
            "{size} bytes: rate {:.2} of ibv_rc_pingpong's, in the median of {ratios:.2?}",
            ratios[2]
        );
    }
}

/// The length of messages that go one way, and their numbers in two runs: the difference is free of what begins and ends.
const STREAM: (usize, [u32; 2]) = (1 << 20, [20, 80]);
/// So many times as many are sent by the other programs, to which a beginning costs more.
const TIMES: u32 = 8;

/// Rank 0 prints how long so many messages take that go one way, four at a time.
fn stream(session: &Session) -> Result<(), Error> {
    let (size, counts) = STREAM;
    let data = vec![1; size];
    for count in counts {
        session.barrier()?;
        let begin = Instant::now();
        for _ in 0..count / 4 {
            if session.rank() == 0 {
                let sends: Result<Vec<_>, Error> =
                    (0..4).map(|_| session.isend(1, 1, &data[..])).collect();
                sends?.into_iter().try_for_each(|send| send.wait().map(|_| ()))?;
            } else {
                let receives: Result<Vec<_>, Error> =
                    (0..4).map(|_| session.irecv(0, 1, vec![0; size])).collect();
                receives?.into_iter().try_for_each(|receive| receive.wait().map(|_| ()))?;
            }
        }
        session.barrier()?;
        if session.rank() == 0 {
            println!("STREAM {count} {}", begin.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// Seconds that a program of perftest takes from its beginning to its end. (What it prints is made of a clock that a
/// guest does not have.)
fn time_of(program: &str, size: usize, count: u32) -> f64 {
    let (size, count) = (size.to_string(), count.to_string());
    let command = || {
        let mut command = Command::new(program);
        command.args(["-d", "rxe0", "-F", "-e", "-m", "4096", "-s", &size, "-n", &count]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        command
    };
    let mut server = command().spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    assert!(command().arg("127.0.0.1").status().unwrap().success(), "{program}");
    let took = begin.elapsed();
    server.wait().unwrap();
    took.as_secs_f64()
}

/// As `beside_rc_pingpong`, of bandwidth: beside perftest's programs for sends and for reads by RDMA.
#[test]
#[ignore = "a measurement: cargo test --release -p newmad --test verbs -- --ignored --nocapture, in the guest"]
fn bandwidth_beside_perftest() {
    if !is_guest("a measurement", 1) {
        return;
    }
    let (size, counts) = STREAM;
    let difference = |of: &dyn Fn(u32) -> f64| of(counts[1]) - of(counts[0]);
    let mut ratios = [const { Vec::new() }; 2];
    for _ in 0..3 {
        let ended = launch("stream", 2, &[("NMAD_DRIVER", "verbs")]).succeed(LIMIT);
        let ours = difference(&|count| {
            let line =
                |text: &str| Some(text.split_once(&format!("STREAM {count} "))?.1.to_owned());
            let line = ended[0].text.lines().find_map(line);
            line.unwrap().trim().parse::<f64>().unwrap()
        });
        for (program, ratios) in ["ib_send_bw", "ib_read_bw"].into_iter().zip(&mut ratios) {
            let theirs = difference(&|count| time_of(program, size, count * TIMES));
            ratios.push(theirs / f64::from(TIMES) / ours);
        }
    }
    for (program, ratios) in ["ib_send_bw", "ib_read_bw"].into_iter().zip(&mut ratios) {
        ratios.sort_by(f64::total_cmp);
        println!(
            "{size} bytes: bandwidth {:.2} of {program}'s, in the median of {ratios:.2?}",
            ratios[2]
        );
    }
}

/// So many active ports are there; else the test says that it is skipped.
fn has_ports(test: &str, count: usize) -> bool {
    let why = match newmad::plumbing::ports() {
        Ok(ports) if ports.iter().filter(|port| port.is_active).count() >= count => return true,
        Ok(ports) => format!("it needs {count} active ports, and there are {}", ports.len()),
        Err(why) => why,
    };
    use std::io::Write;
    // Not `eprintln!`: what a passing test prints that way is not shown.
    let said = format!("SKIPPED {test}: {why} (ci/verbs.sh runs it in a guest)\n");
    let _ = std::io::stderr().write_all(said.as_bytes());
    false
}

/// Whether the adapters are those of the guest, whose interfaces may be set down.
fn is_guest(test: &str, count: usize) -> bool {
    has_ports(test, count)
        && (Path::new("/sys/class/net/dummy0").exists() || {
            eprintln!("SKIPPED {test}: the adapters are real ones");
            false
        })
}

/// Returns when the adapter on that network interface is up, or down, too: a session that opens takes those that are up.
fn set(net: &str, state: &str) {
    let done = Command::new("ip").args(["link", "set", net, state]).status().unwrap();
    assert!(done.success(), "ip link set {net} {state}");
    let file = format!("/sys/class/infiniband/{}/ports/1/state", net.replace("dummy", "rxe"));
    let is_up = || std::fs::read_to_string(&file).unwrap().contains("ACTIVE");
    let start = Instant::now();
    while is_up() != (state == "up") {
        assert!(start.elapsed() < LIMIT, "the adapter on {net} is not {state}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two processes that run `scenario` over these rails, and where they tell how far they are.
fn over(driver: &str, scenario: &str, more: (&str, &str)) -> (Job, Words) {
    let reads = ("NMAD_VERBS_RDMA", "30000");
    with_words(scenario, &|_| vec![("NMAD_DRIVER", driver), reads, more])
}

/// Processes in these environments, by rank, which leave word for the test.
fn with_words<'a>(scenario: &str, env: &dyn Fn(usize) -> Vec<(&'a str, &'a str)>) -> (Job, Words) {
    let words = Words::new(&format!("verbs-{scenario}"));
    let path = words.path().display().to_string();
    let env = |rank: usize| [&env(rank)[..], &[(WORDS, path.as_str())]].concat();
    (start(scenario, 2, 2, &env, Arc::new(|_, value| value.to_owned())), words)
}

/// Packets that the guest's first adapter has sent; of long messages they are longer where the adapter reads.
fn sends() -> u64 {
    let counter = "/sys/class/infiniband/rxe0/ports/1/hw_counters/rdma_sends";
    std::fs::read_to_string(counter).unwrap().trim().parse().unwrap()
}

#[test]
fn long_messages_of_all_kinds_arrive_and_are_read_where_they_may_be() {
    if !is_guest("long messages", 2) {
        return;
    }
    let sends_of = |driver: &str, from: (&str, &str)| {
        let before = sends();
        launch("long", 2, &[("NMAD_DRIVER", driver), from]).succeed(LIMIT);
        sends() - before
    };
    let copied = sends_of("verbs", ("NMAD_VERBS_RDMA", "0"));
    // As `mad sample` writes it where reading is faster from some 100,000 bytes on, and where it never is.
    let sampled = |read: [u32; 2]| {
        let file = std::env::temp_dir().join(format!("sampled-{}-{}", std::process::id(), read[1]));
        let lines = ["stream 4096 40000", "stream 1048576 900000"].map(str::to_owned);
        let reads = [4096, 1 << 20].into_iter().zip(read);
        let lines = lines.into_iter().chain(reads.map(|(size, ns)| format!("read {size} {ns}")));
        let lines: String = lines.map(|line| format!("verbs {line}\n")).collect();
        std::fs::write(&file, format!("newmad sampling 1\n{lines}end 4\n")).unwrap();
        let sends = sends_of("verbs", ("NMAD_SAMPLING", file.to_str().unwrap()));
        std::fs::remove_file(&file).unwrap();
        sends
    };
    let reads = [sends_of("verbs", ("NMAD_VERBS_RDMA", "100000")), sampled([120_000, 200_000])];
    let never = sampled([120_000, 1_000_000]);
    println!(
        "{copied} and {never} packets with data are sent, and {reads:?} where long messages are read"
    );
    // Those in pieces are copied in all: a quarter of it.
    assert!(reads.iter().all(|&read| read < copied / 2), "{reads:?} of {copied} packets");
    assert!(never > copied * 3 / 4, "{never} of {copied} packets");
    sends_of("verbs", ("NMAD_SAMPLING", "now"));
    for driver in ["verbs+verbs", "verbs+tcp", "shm+verbs"] {
        sends_of(driver, ("NMAD_VERBS_RDMA", "1"));
    }
}

#[test]
fn long_messages_whose_memory_may_not_be_locked_are_copied() {
    // SAFETY: no memory is involved.
    if !is_guest("little locked memory", 1) || unsafe { libc::getuid() } != 0 {
        return;
    }
    launch("long, little locked", 2, &[("NMAD_DRIVER", "verbs")]).succeed(LIMIT);
}

/// An adapter goes down and comes back, again and again, in the middle of messages over these rails.
fn comes_back(driver: &str, nets: &[&str]) {
    let (job, words) = over(driver, "load", PATIENT);
    words.wait("running0");
    for net in nets {
        for pause in [50, 400, 1500] {
            set(net, "down");
            std::thread::sleep(Duration::from_millis(pause));
            set(net, "up");
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    words.say("treated");
    job.succeed(LIMIT);
}

#[test]
fn an_adapter_that_goes_down_and_comes_back_loses_nothing() {
    if is_guest("an adapter that comes back", 2) {
        comes_back("verbs", &["dummy0"]);
        comes_back("verbs+verbs", &["dummy1", "dummy0"]);
        comes_back("verbs+tcp", &["dummy0"]);
    }
}

#[test]
fn while_an_adapter_is_down_the_other_rail_carries_on() {
    if !is_guest("another rail", 2) {
        return;
    }
    for driver in ["verbs+verbs", "verbs+tcp"] {
        let (job, words) = over(driver, "load", PATIENT);
        words.wait("running0");
        set("dummy0", "down");
        words.say("treated");
        job.succeed(LIMIT);
        set("dummy0", "up");
    }
}

#[test]
fn an_adapter_that_stays_down_is_an_error_on_both_sides() {
    if !is_guest("an adapter that stays down", 1) {
        return;
    }
    // In the middle of messages that are sent in packets, and of others that are read.
    for scenario in ["alone", "alone, long"] {
        let (job, words) = over("verbs", scenario, ("NMAD_REPAIR_MS", "600"));
        words.wait("running0");
        words.wait("running1");
        let since = Instant::now();
        set("dummy0", "down");
        words.wait("error0");
        words.wait("error1");
        let took = since.elapsed();
        set("dummy0", "up");
        println!("both sides know after {took:?}");
        // The promise is two seconds; the machine may be busy with other things.
        assert!(took < Duration::from_secs(40), "noticed after {took:?}");
        job.succeed(LIMIT);
    }
}

/// Two virtual rails on a machine of two NUMA nodes, which is synthetic: the guest has one processor.
const VIRTUAL: [(&str, &str); 5] = [
    ("NMAD_DRIVER", "verbs"),
    ("NMAD_VERBS_VIRTUAL_RAILS", "auto"),
    ("NMAD_VERBS_VIRTUAL_RAILS_WINDOW", "40"),
    ("NMAD_VERBS_RDMA", "30000"),
    ("MARCEL_TOPOLOGY", "numa:2 core:1"),
];

/// What holds of the counts of two processes in which receivers have moved three times.
fn check_routes(texts: [&str; 2]) {
    let [sender, receiver] = texts;
    let by_rail = |text, what: &str| {
        [0, 1].map(|rail| figure(text, &format!("packets {what} by virtual rail {rail}")))
    };
    let (sent, received) = (by_rail(sender, "sent"), by_rail(receiver, "received"));
    let again = figure(sender, "packets sent again");
    println!("sent {sent:?}, {again} of them again; received {received:?}");
    assert_eq!(sent.iter().sum::<u64>(), received.iter().sum(), "each packet is counted once");
    // Two of four parts are received on each node, but for their first windows; short messages share packets.
    assert!(received.iter().all(|&packets| packets > EACH / 4), "{received:?}");
    assert_eq!(figure(receiver, "routes asked for"), 3);
    assert_eq!(figure(sender, "routes changed"), 3);
    assert_eq!(figure(sender, "routes asked for"), 0, "its thread has no place in the topology");
}

#[test]
fn messages_follow_their_receivers_to_the_virtual_rails_of_their_nodes() {
    if !has_ports("virtual rails", 1) {
        return;
    }
    type More<'a> = &'a [(&'a str, &'a str)];
    let moves =
        |more: More| with_words("moves", &|_| [&VIRTUAL[..], more].concat()).0.succeed(LIMIT);
    let run = |more: More| {
        let ended = moves(more);
        let texts = [&ended[0].text[..], &ended[1].text];
        check_routes(texts);
        for text in texts {
            let buffers = [0, 1]
                .map(|rail| figure(text, &format!("buffers on the node of virtual rail {rail}")));
            assert!(buffers[0] > 0 && buffers[0] == buffers[1], "{buffers:?}");
        }
    };
    run(&[]);
    run(&[("NMAD_VERBS_CHANNELS", "1048576"), ("NMAD_VERBS_CHANNELS_AFTER", "20")]);
    // Shared memory carries the short messages, whatever the route is.
    moves(&[("NMAD_DRIVER", "shm+verbs")]);
}

#[test]
fn routes_change_while_the_adapter_goes_down_and_comes_back() {
    if !is_guest("virtual rails of an adapter that comes back", 1) {
        return;
    }
    let (job, words) = with_words("moves", &|_| [&VIRTUAL[..], &[PATIENT]].concat());
    words.wait("running0");
    for pause in [50, 400, 1500] {
        std::thread::sleep(Duration::from_millis(300));
        set("dummy0", "down");
        std::thread::sleep(Duration::from_millis(pause));
        set("dummy0", "up");
    }
    let ended = job.succeed(LIMIT);
    check_routes([&ended[0].text, &ended[1].text]);
}

/// The two adapters are on networks that do not reach each other.
#[test]
fn a_rail_that_opens_and_never_carries_anything_leaves_the_messages_to_the_other() {
    if !is_guest("a rail between two networks", 2) {
        return;
    }
    let env = |rank: usize| {
        let ports = if rank == 0 { "rxe1,rxe0" } else { "rxe0,rxe0" };
        vec![("NMAD_DRIVER", "verbs+verbs"), ("NMAD_VERBS_DEVICE", ports), PATIENT]
    };
    let (job, words) = with_words("load", &env);
    words.wait("running0");
    words.say("treated");
    job.succeed(LIMIT);
}

#[test]
fn processes_have_the_same_number_of_virtual_rails_or_say_so() {
    if !has_ports("numbers of virtual rails", 1) {
        return;
    }
    let env = |rank: usize| {
        let count = if rank == 0 { "1" } else { "2" };
        vec![
            ("NMAD_DRIVER", "verbs"),
            ("NMAD_VERBS_VIRTUAL_RAILS", count),
            ("NMAD_CONNECT_TIMEOUT_MS", "5000"),
        ]
    };
    let job = start("nothing", 2, 2, &env, Arc::new(|_, value| value.to_owned()));
    let ended = job.end(LIMIT);
    assert!(ended.iter().all(|end| end.code != Some(0)), "{ended:#?}");
    let says = |end: &common::Ended| end.text.contains("NMAD_VERBS_VIRTUAL_RAILS=verbs");
    assert!(ended.iter().any(says), "{ended:#?}");
    for text in
        refusals("nothing", &[("NMAD_VERBS_VIRTUAL_RAILS", "3"), ("NMAD_DRIVER", "verbs+verbs")])
    {
        assert!(
            text.contains("at most 4 rails") && text.contains("NMAD_VERBS_VIRTUAL_RAILS"),
            "{text}"
        );
    }
}

/// What each of two processes says that cannot open a session.
fn refusals(scenario: &str, env: &[(&str, &str)]) -> Vec<String> {
    let usual = [("NMAD_DRIVER", "verbs"), ("NMAD_CONNECT_TIMEOUT_MS", "5000")];
    let env = [&usual, env].concat();
    let ended = launch(scenario, 2, &env).end(LIMIT);
    assert!(ended.iter().all(|end| end.code != Some(0)), "{ended:#?}");
    ended.into_iter().map(|end| end.text).collect()
}

#[test]
fn a_machine_without_an_adapter_says_so() {
    if newmad::plumbing::ports().is_ok() {
        return;
    }
    for text in refusals("nothing", &[]) {
        assert!(text.contains("the driver verbs cannot be used"), "{text}");
        assert!(text.contains("no adapter") || text.contains("libibverbs"), "{text}");
    }
}

#[test]
fn a_port_that_is_not_there_is_named_and_so_are_those_that_are() {
    if !has_ports("names of ports", 1) {
        return;
    }
    let there = newmad::plumbing::ports().unwrap().swap_remove(0).name;
    for text in refusals("nothing", &[("NMAD_VERBS_DEVICE", "nosuch0")]) {
        assert!(text.contains("no adapter nosuch0") && text.contains(&there), "{text}");
    }
    let ninth = format!("{}:9", there.split(':').next().unwrap());
    for text in refusals("nothing", &[("NMAD_VERBS_DEVICE", &ninth)]) {
        assert!(text.contains("it has 1 port"), "{text}");
    }
}

#[test]
fn memory_that_may_not_be_locked_is_an_error_with_the_way_out() {
    // SAFETY: no memory is involved.
    if !is_guest("locked memory", 1) || unsafe { libc::getuid() } != 0 {
        return;
    }
    for text in refusals("unprivileged", &[]) {
        assert!(text.contains("ulimit -l") && text.contains("64 KiB"), "{text}");
    }
}

#[test]
fn a_device_that_may_not_be_opened_is_an_error_with_the_way_out() {
    // SAFETY: no memory is involved.
    if !is_guest("permission", 1) || unsafe { libc::getuid() } != 0 {
        return;
    }
    let mode = |mode: &str| {
        let change = format!("chmod {mode} /dev/infiniband/uverbs*");
        assert!(Command::new("sh").arg("-c").arg(change).status().unwrap().success());
    };
    mode("600");
    let texts = refusals("unprivileged", &[]);
    mode("666");
    for text in texts {
        assert!(text.contains("/dev/infiniband/uverbs"), "{text}");
    }
}
