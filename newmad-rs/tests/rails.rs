//! Two real networks between two processes, one of which is cut in the middle of everything: nothing is lost, twice or
//! out of order, and the other one carries on. And what happens when the only one is cut.
//!
//! The networks are virtual cables between two network namespaces, which needs root, `ip` and `tc`; without, the tests
//! say that they are skipped.

mod common;
#[allow(dead_code, unreachable_pub)]
#[path = "../../mad-bench-rs/src/experiments/multirail/network.rs"]
mod network;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Ended, Job, byte, message, start};
use network::{CABLES, Network, cable_name};
use newmad::{Error, Session};

const LIMIT: Duration = Duration::from_secs(120);
/// Rounds before the cut, and after it.
const BEFORE: u64 = 20;
const AFTER: u64 = 30;
/// Where processes find their namespace, and where they and the test leave word.
const NAMESPACE: &str = "NEWMAD_TEST_NAMESPACE";
const WORD: &str = "NEWMAD_TEST_WORD";

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    network::enter(&std::env::var(NAMESPACE).unwrap()).unwrap();
    let run = match scenario.as_str() {
        "load" => load,
        "alone" => alone,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

/// A directory in which processes and the test leave word for each other, by empty files.
struct Words(PathBuf);

impl Words {
    fn new(test: &str) -> Words {
        let path = std::env::temp_dir().join(format!("newmad-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Words(path)
    }

    fn there() -> Words {
        Words(std::env::var_os(WORD).unwrap().into())
    }

    fn say(&self, word: &str) {
        std::fs::write(self.0.join(word), "").unwrap();
    }

    fn is_said(&self, word: &str) -> bool {
        self.0.join(word).exists()
    }

    fn wait(&self, word: &str) {
        let start = Instant::now();
        while !self.is_said(word) {
            assert!(start.elapsed() < LIMIT, "no process said {word}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Two processes over these cables, and what is between them. `None`: it cannot be had here.
fn on_cables(
    test: &str,
    scenario: &str,
    cables: usize,
    words: &Path,
) -> Option<(Network, Job, Instant)> {
    let network = match Network::new([1000, 400]) {
        Ok(network) => network,
        Err(why) => {
            eprintln!("SKIPPED {test}: {why}");
            return None;
        }
    };
    let addresses =
        |side| (0..cables).map(|cable| network.address(side, cable)).collect::<Vec<_>>().join(",");
    let settings: Vec<[String; 4]> = (0..2)
        .map(|side| {
            let driver = vec!["tcp"; cables].join("+");
            [network.path(side), addresses(side), driver, words.display().to_string()]
        })
        .collect();
    let env = |rank: usize| {
        let names = [NAMESPACE, "NMAD_TCP_ADDRESS", "NMAD_DRIVER", WORD];
        let mut env: Vec<(&str, &str)> =
            names.into_iter().zip(settings[rank].iter().map(String::as_str)).collect();
        env.extend([("NMAD_STRATEGY", "split_balance"), ("NMAD_SAMPLING", "now")]);
        env
    };
    let job = start(scenario, 2, 2, &env, Arc::new(|_, value| value.to_owned()));
    Some((network, job, Instant::now()))
}

/// What `from` sends as number `index` of a round: mostly short, some announced, two that both rails carry.
fn content(from: u32, round: u64, index: u64) -> Vec<u8> {
    let number = u64::from(from) << 48 | round << 8 | index;
    let len = match index {
        0 => 0,
        6 | 7 => 300_000 + round as usize % 50 * 1000,
        8 => 40_000,
        _ => byte(number, 1) as usize * 10,
    };
    message(number, len)
}

/// Both ways at once, until the test has cut a network and some rounds more.
fn load(session: &Session) -> Result<(), Error> {
    let (rank, peer, words) = (session.rank(), 1 - session.rank(), Words::there());
    let (mut round, mut last) = (0, u64::MAX);
    while round < last {
        let mut sends = Vec::new();
        let mut receives = Vec::new();
        for index in 0..10 {
            sends.push(session.isend(peer, index % 3, content(rank, round, index))?);
        }
        for tag in 0..3 {
            for index in (0..10).filter(|index| index % 3 == tag) {
                receives.push((index, session.irecv(peer, tag, vec![0; 400_000])?));
            }
        }
        for (index, receive) in receives {
            let (data, status) = receive.wait()?;
            assert!(
                data[..status.len] == content(peer, round, index),
                "message {index} of round {round}: {} bytes",
                status.len
            );
        }
        for send in sends {
            send.wait()?;
        }
        round += 1;
        // Rank 0 says which round is the last, when it knows.
        let mut known = [0; 8];
        if rank == 0 {
            if last == u64::MAX && words.is_said("cut") {
                last = round + AFTER;
            }
            known = last.to_le_bytes();
            session.send(peer, 9, &known)?;
        } else {
            session.recv(peer, 9, &mut known)?;
            last = u64::from_le_bytes(known);
        }
        if round == BEFORE {
            words.say(&format!("running{rank}"));
        }
    }
    session.barrier()
}

/// Sends and receives until that is an error, which has to come.
fn alone(session: &Session) -> Result<(), Error> {
    let (rank, peer, words) = (session.rank(), 1 - session.rank(), Words::there());
    let mut buffer = vec![0; 100_000];
    let mut round = 0;
    let error = loop {
        let done = match rank {
            0 => session.send(peer, 1, &buffer),
            _ => session.recv(peer, 1, &mut buffer).map(|_| ()),
        };
        if let Err(error) = done {
            break error;
        }
        round += 1;
        if round == BEFORE {
            words.say(&format!("running{rank}"));
        }
    };
    words.say(&format!("error{rank}"));
    assert!(matches!(error, Error::PeerDied { .. }), "{error}");
    Ok(())
}

/// What the load says when a cable is treated so in the middle of it.
fn through(test: &str, treat: impl Fn(&Network)) -> Option<Vec<Ended>> {
    let words = Words::new(test);
    let (network, job, _) = on_cables(test, "load", CABLES, &words.0)?;
    words.wait("running0");
    treat(&network);
    words.say("cut");
    let ended = job.succeed(LIMIT);
    std::fs::remove_dir_all(&words.0).unwrap();
    Some(ended)
}

fn cut(network: &Network, cable: usize) {
    let name = cable_name(cable);
    network.run(0, "ip", &format!("link set {name} down")).unwrap();
    // While it is down and there; then it is gone.
    std::thread::sleep(Duration::from_millis(300));
    network.run(0, "ip", &format!("link delete {name}")).unwrap();
}

#[test]
fn the_first_rail_is_cut_and_the_other_carries_on() {
    through("first", |network| cut(network, 0));
}

#[test]
fn the_second_rail_is_cut_and_the_other_carries_on() {
    through("second", |network| cut(network, 1));
}

#[test]
fn a_rail_that_comes_back_is_used_again() {
    through("back", |network| {
        for side in 0..2 {
            let name = cable_name(side);
            network.run(side, "ip", &format!("link set {name} down")).unwrap();
            std::thread::sleep(Duration::from_secs(2));
            network.run(side, "ip", &format!("link set {name} up")).unwrap();
            std::thread::sleep(Duration::from_secs(2));
        }
    });
}

#[test]
fn the_only_rail_is_cut_and_both_sides_hear_of_it() {
    let words = Words::new("only");
    let Some((network, job, _)) = on_cables("only", "alone", 1, &words.0) else { return };
    words.wait("running0");
    words.wait("running1");
    cut(&network, 0);
    let start = Instant::now();
    for rank in 0..2 {
        words.wait(&format!("error{rank}"));
    }
    // Two seconds until the silence is noticed and 1.5 for repairs; the rest is for a machine that does something else.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    eprintln!("heard of after {:?}", start.elapsed());
    job.end(LIMIT);
    std::fs::remove_dir_all(&words.0).unwrap();
}
