//! Two real networks between two processes, one of which is cut in the middle of everything: nothing is lost, twice or
//! out of order, and the other one carries on. And what happens when the only one is cut.
//!
//! The networks are virtual cables between two network namespaces, which needs root, `ip` and `tc`; without, the tests
//! say that they are skipped.

mod common;
#[allow(dead_code, unreachable_pub)]
#[path = "../../mad-bench-rs/src/experiments/multirail/network.rs"]
mod network;
#[path = "common/treated.rs"]
mod treated;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Ended, Job, start};
use network::{CABLES, Network, cable_name};
use treated::{WORDS, Words, alone, load};

const LIMIT: Duration = Duration::from_secs(120);
/// Where processes find their namespace.
const NAMESPACE: &str = "NEWMAD_TEST_NAMESPACE";

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    network::enter(&std::env::var(NAMESPACE).unwrap()).unwrap();
    let run = match scenario.as_str() {
        "load" => |session: &_| load(session, 300_000),
        "alone" => |session: &_| alone(session, 100_000),
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
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
        let names = [NAMESPACE, "NMAD_TCP_ADDRESS", "NMAD_DRIVER", WORDS];
        let mut env: Vec<(&str, &str)> =
            names.into_iter().zip(settings[rank].iter().map(String::as_str)).collect();
        env.extend([("NMAD_STRATEGY", "split_balance"), ("NMAD_SAMPLING", "now")]);
        env
    };
    let job = start(scenario, 2, 2, &env, Arc::new(|_, value| value.to_owned()));
    Some((network, job, Instant::now()))
}

/// What the load says when a cable is treated so in the middle of it.
fn through(test: &str, treat: impl Fn(&Network)) -> Option<Vec<Ended>> {
    let words = Words::new(test);
    let (network, job, _) = on_cables(test, "load", CABLES, words.path())?;
    words.wait("running0");
    treat(&network);
    words.say("treated");
    Some(job.succeed(LIMIT))
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
    let Some((network, job, _)) = on_cables("only", "alone", 1, words.path()) else { return };
    words.wait("running0");
    words.wait("running1");
    cut(&network, 0);
    let start = Instant::now();
    for rank in 0..2 {
        words.wait(&format!("error{rank}"));
    }
    // Two seconds until the silence is noticed and 1.5 for repairs; the rest is for a machine that does something else.
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    eprintln!("heard of after {:?}", start.elapsed());
    job.end(LIMIT);
}
