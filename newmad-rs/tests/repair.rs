//! TCP connections that break while both processes live: made again, with nothing lost, twice or out of order; and
//! what happens when they cannot be made again.

mod common;
#[path = "common/enough.rs"]
mod enough;
#[allow(dead_code)]
#[path = "common/proxy.rs"]
mod proxy;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Job, byte, message, start};
use enough::{ENOUGH, Enough, goes_on};
use newmad::{Error, Session};
use proxy::{Mode, Proxy};

const LIMIT: Duration = Duration::from_secs(300);
const ROUNDS: u64 = 40;
/// Where the next cut may come before a busy machine has made a connection, this test is not about time.
const PATIENT: (&str, &str) = ("NMAD_REPAIR_MS", "30000");

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "storm" => storm,
        "partition" => partition,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

/// What `from` sends to `to` as number `index` of a round, and how long it is: mostly short, some announced.
fn content(from: u32, to: u32, round: u64, index: u64) -> Vec<u8> {
    let number = u64::from(from) << 48 | u64::from(to) << 40 | round << 8 | index;
    let len = match index {
        0 => 0,
        7 => 100_000 + (round % ROUNDS) as usize * 1000,
        8 => 40_000,
        _ => byte(number, 1) as usize * 10,
    };
    message(number, len)
}

/// All ranks with all ranks: many short messages, some long ones; contents tell their place.
fn storm(session: &Session) -> Result<(), Error> {
    let (rank, size) = (session.rank(), session.size());
    for round in 0.. {
        if !goes_on(session, round, ROUNDS)? {
            break;
        }
        let mut sends = Vec::new();
        let mut receives = Vec::new();
        for peer in (0..size).filter(|&peer| peer != rank) {
            for index in 0..10 {
                let tag = index % 3;
                sends.push(session.isend(peer, tag, content(rank, peer, round, index))?);
            }
            for tag in 0..3 {
                for index in (0..10).filter(|index| index % 3 == tag) {
                    let receive = session.irecv(peer, tag, vec![0; 400_000])?;
                    receives.push((peer, index, receive));
                }
            }
        }
        for (peer, index, receive) in receives {
            let (data, status) = receive.wait()?;
            let expected = content(peer, rank, round, index);
            assert!(
                data[..status.len] == expected,
                "message {index} of round {round} from {peer}: {} bytes",
                status.len
            );
        }
        for send in sends {
            send.wait()?;
        }
    }
    session.barrier()
}

/// Proxies in front of each address that a process publishes, in the order in which they are made.
#[derive(Clone, Default)]
struct Network {
    proxies: Arc<Mutex<Vec<Proxy>>>,
    spoils: bool,
}

impl Network {
    fn start(&self, scenario: &str, size: usize, env: &[(&str, &str)]) -> Job {
        let (proxies, spoils) = (self.proxies.clone(), self.spoils);
        let rewrite = move |_: usize, value: &str| {
            let mut changed = value.to_owned();
            // Between processes of one machine no network is cut.
            for address in value.split(',').skip(6).filter(|address| !address.starts_with('@')) {
                let to: SocketAddr = address.parse().unwrap();
                let proxy = Proxy::new(to);
                if spoils {
                    proxy.set(Mode::Spoil);
                }
                changed = changed.replace(address, &proxy.address.to_string());
                proxies.lock().unwrap().push(proxy);
            }
            changed
        };
        start(scenario, size, size, &|_| env.to_vec(), Arc::new(rewrite))
    }

    fn all(&self) -> Vec<Proxy> {
        self.proxies.lock().unwrap().clone()
    }

    /// Cuts the connections of one proxy after the other, among those that `which` points at, until `stop`; tells how
    /// often it has done so each time, and says it at the end.
    fn cut_again_and_again(
        &self,
        which: impl Fn(usize) -> bool,
        stop: &AtomicBool,
        told: impl Fn(usize),
    ) -> usize {
        let mut cuts = 0;
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(30 + u64::from(byte(7, cuts)) / 4));
            let all = self.all();
            let chosen: Vec<&Proxy> =
                all.iter().enumerate().filter(|(at, _)| which(*at)).map(|(_, one)| one).collect();
            if !chosen.is_empty() {
                let proxy = chosen[cuts % chosen.len()];
                if cuts % 4 == 3 {
                    // Not broken: only slow for a moment, and then cut while much is on its way.
                    proxy.set(Mode::Stall);
                    std::thread::sleep(Duration::from_millis(20));
                    proxy.cut();
                    proxy.set(Mode::Pass);
                } else {
                    proxy.cut();
                }
                cuts += 1;
                told(cuts);
            }
        }
        cuts
    }
}

/// `first` is done before the first cut.
fn storm_under_cuts(
    size: usize,
    env: &[(&str, &str)],
    first: impl Fn(&Network) + Sync,
    which: fn(usize) -> bool,
) {
    let network = Network::default();
    let stop = AtomicBool::new(false);
    let file = Enough::new();
    let enough = |cuts| {
        // Without cuts it would be the control ring and one link for each pair and rail.
        cuts > 5 && network.all().iter().map(Proxy::made).sum::<usize>() > 3 * size * size
    };
    let env = [env, &[(ENOUGH, file.path())]].concat();
    let (ended, cuts) = std::thread::scope(|scope| {
        let cutter = scope.spawn(|| {
            first(&network);
            // The storm lasts until there was enough of it, on a quick machine as on a slow one.
            network.cut_again_and_again(which, &stop, |cuts| {
                if enough(cuts) {
                    file.say();
                }
            })
        });
        let ended = network.start("storm", size, &env).end(LIMIT);
        stop.store(true, Ordering::Relaxed);
        (ended, cutter.join().unwrap())
    });
    let made: usize = network.all().iter().map(Proxy::made).sum();
    println!("{env:?}: {cuts} cuts, {made} connections");
    assert!(ended.iter().all(|end| end.code == Some(0)), "{env:?}: {ended:#?}");
    assert!(enough(cuts), "only {made} connections were made: too few cuts to tell");
}

#[test]
fn connections_that_are_cut_again_and_again_lose_nothing() {
    for driver in common::drivers(&["tcp"]) {
        // Over shared memory nothing is cut: the other rail would not be used.
        if !driver.starts_with("shm") {
            storm_under_cuts(3, &[("NMAD_DRIVER", driver), PATIENT], |_| {}, |_| true);
        }
    }
}

#[test]
fn one_of_two_rails_may_break_again_and_again() {
    for driver in common::drivers(&["tcp+tcp"]) {
        if driver.matches('+').count() == 1 && !driver.starts_with("shm") {
            storm_under_cuts(2, &[("NMAD_DRIVER", driver), PATIENT], |_| {}, |at| at % 2 == 1);
        }
    }
}

/// One rail is gone for longer than the time of a repair when the other one breaks, again and again.
#[test]
fn a_rail_that_cannot_be_made_again_does_not_end_what_another_one_carries() {
    let gone = |network: &Network| {
        // Each link has two connections, and there is at least one of the control ring over the first rail.
        let made =
            |rail| network.all().iter().skip(rail).step_by(2).map(Proxy::made).sum::<usize>();
        while made(0) < 3 || made(1) < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Then they are greeted over.
        std::thread::sleep(Duration::from_secs(1));
        for proxy in network.all().iter().step_by(2) {
            proxy.set(Mode::Refuse);
            proxy.cut();
        }
        std::thread::sleep(Duration::from_secs(6));
        // It is made again more slowly than the other one refuses.
        for _ in 0..5 {
            let others = network.all().into_iter().skip(1).step_by(2).collect::<Vec<_>>();
            others.iter().for_each(|proxy| proxy.set(Mode::Stall));
            others.iter().for_each(Proxy::cut);
            std::thread::sleep(Duration::from_millis(200));
            others.iter().for_each(|proxy| proxy.set(Mode::Pass));
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let env = [("NMAD_DRIVER", "tcp+tcp"), ("NMAD_REPAIR_MS", "5000")];
    storm_under_cuts(2, &env, gone, |at| at % 2 == 1);
}

/// Every connection spoils one bit each way: were it not noticed, the link would stay, and nothing more be spoiled.
#[test]
fn with_checksums_no_bit_that_changes_on_its_way_is_delivered() {
    let network = Network { spoils: true, ..Network::default() };
    let env = [("NMAD_DRIVER", "tcp"), ("NMAD_CHECKSUM", "1"), PATIENT];
    let ended = network.start("storm", 3, &env).end(LIMIT);
    let spoiled: usize = network.all().iter().map(Proxy::spoiled).sum();
    let made: usize = network.all().iter().map(Proxy::made).sum();
    println!("{spoiled} bits changed, {made} connections");
    assert!(ended.iter().all(|end| end.code == Some(0)), "{ended:#?}");
    assert!(spoiled > 12, "only {spoiled} bits were changed: too few to tell");
}

/// Waits for a message that never comes, since the network is cut for good.
fn partition(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    let send = session.isend(peer, 1, "hello")?;
    session.recv(peer, 1, &mut [0; 8])?;
    send.wait()?;
    std::fs::write(format!("{}.{}", std::env::var("MET").unwrap(), session.rank()), b"").unwrap();
    let begin = Instant::now();
    // Sends now and then, so that there is something that can go unanswered.
    let waits = session.irecv(peer, 2, vec![0; 8])?;
    while session.send(peer, 1, b"tick").is_ok() {
        assert!(begin.elapsed() < LIMIT / 2, "the end is not noticed");
        std::thread::sleep(Duration::from_millis(20));
    }
    match waits.wait() {
        Err(Error::PeerDied { rank, .. }) if rank == peer => {}
        other => panic!("{other:?}"),
    }
    // From then on it is an error at once.
    let begin = Instant::now();
    assert!(session.send(peer, 1, b"x").is_err());
    assert!(begin.elapsed() < Duration::from_secs(5));
    Ok(())
}

#[test]
fn a_network_that_stays_cut_ends_what_needs_it() {
    // The promise is 2 s after the repair time; the machine may be busy with other things.
    ends_within(true, Duration::from_secs(40));
}

#[test]
fn a_network_that_falls_silent_ends_what_needs_it() {
    // Nothing says that the network is gone: first what is sent has to go unanswered for seconds.
    ends_within(false, Duration::from_secs(60));
}

fn ends_within(cut: bool, limit: Duration) {
    let network = Network::default();
    let met = format!("newmad-repair-{}-{cut}", std::process::id());
    let met = std::env::temp_dir().join(met).display().to_string();
    let env = [("NMAD_DRIVER", "tcp"), ("NMAD_REPAIR_MS", "600"), ("MET", &met)];
    let job = network.start("partition", 2, &env);
    let begin = Instant::now();
    for rank in 0..2 {
        // Each writes its file when it has heard of the other.
        while std::fs::remove_file(format!("{met}.{rank}")).is_err() {
            assert!(begin.elapsed() < LIMIT / 2, "they do not meet");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    for proxy in network.all() {
        proxy.set(Mode::Swallow);
    }
    if cut {
        network.all().iter().for_each(Proxy::cut);
    }
    let begin = Instant::now();
    let ended = job.succeed(LIMIT);
    println!("cut {cut}: over after {:?}", begin.elapsed());
    assert!(begin.elapsed() < limit, "{:?}: {ended:#?}", begin.elapsed());
}
