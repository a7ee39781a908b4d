//! Strategies between real processes: bursts, changes at run time, a strategy of one's own that misbehaves.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use common::{launch, message};
use newmad::strategy::{self, Packet, Strategy, Waiting};
use newmad::{Error, Session};

const LIMIT: Duration = Duration::from_secs(120);
const FLAG: &str = "NEWMAD_TEST_FLAG";

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(common::SCENARIO) else { return };
    let run = match scenario.as_str() {
        "bursts" => bursts,
        "changes" => changes,
        "hold" => hold,
        "alone" => alone,
        "sizes" => sizes,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        panic!("{error}");
    }
}

/// Length of message `number` of a burst: mostly short, some long, some announced.
fn length(number: u64) -> usize {
    match number % 50 {
        17 => 3_000,
        23 => 20_000,
        40 => 100_000,
        rest => rest as usize * 7 % 90,
    }
}

/// Both sides send bursts with a few tags and priorities, and receive them tag by tag.
fn burst(session: &Session, round: u64) -> Result<(), Error> {
    const COUNT: u64 = 200;
    let peer = 1 - session.rank();
    let number = |at: u64| round * COUNT + at;
    let mut sends = Vec::new();
    for at in 0..COUNT {
        let data = message(number(at), length(number(at)));
        sends.push(session.isend_with(
            peer,
            at % 4,
            data,
            newmad::SendOptions::new().priority((at % 7) as i8 - 3),
        )?);
    }
    let mut buffer = vec![0; 100_000];
    for tag in 0..4 {
        for at in (tag..COUNT).step_by(4) {
            let status = session.recv(peer, tag, &mut buffer)?;
            assert_eq!(status.len, length(number(at)), "message {at} of round {round}");
            assert!(buffer[..status.len] == message(number(at), status.len));
        }
    }
    sends.into_iter().try_for_each(|send| send.wait().map(drop))
}

fn bursts(session: &Session) -> Result<(), Error> {
    (0..20).try_for_each(|round| burst(session, round))
}

#[test]
fn bursts_arrive_whole_and_in_order_under_every_strategy() {
    for strategy in strategy::NAMES {
        for driver in common::drivers(&["shm", "tcp"]) {
            for reorder in ["0", "1"] {
                let env = [
                    ("NMAD_STRATEGY", *strategy),
                    ("NMAD_DRIVER", driver),
                    ("NMAD_REORDER", reorder),
                ];
                launch("bursts", 2, &env).succeed(LIMIT);
            }
        }
    }
}

/// Takes the newest first, sometimes nothing, and panics in the end.
struct Wild(AtomicUsize);

impl Strategy for Wild {
    fn name(&self) -> &str {
        "wild"
    }
    fn fill(&self, waiting: &Waiting<'_>, packet: &mut Packet<'_>) {
        let call = self.0.fetch_add(1, Relaxed);
        assert!(call < 100, "a strategy of the test that panics");
        for index in (0..waiting.len() * (call % 2)).rev() {
            packet.take(index);
        }
    }
    fn may_hold(&self) -> bool {
        true
    }
    fn hold(&self, lone: &strategy::Lone) -> bool {
        lone.message.len.is_multiple_of(2)
    }
}

fn changes(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    for round in 0..20 {
        let next: Arc<dyn Strategy> = match round as usize % (strategy::NAMES.len() + 1) {
            0 => Arc::new(Wild(AtomicUsize::new(0))),
            known => strategy::by_name(strategy::NAMES[known - 1]).unwrap(),
        };
        session.set_strategy(peer, next)?;
        burst(session, round)?;
    }
    assert!(session.set_strategy(2, strategy::by_name("default").unwrap()).is_err());
    Ok(())
}

#[test]
fn strategies_change_while_messages_flow_and_a_wild_one_breaks_nothing() {
    for driver in common::drivers(&["shm", "tcp", "tcp+tcp", "shm+tcp"]) {
        launch("changes", 2, &[("NMAD_DRIVER", driver)]).succeed(LIMIT);
    }
}

/// Messages of a burst are held for a look; the sender computes and looks no more.
fn hold(session: &Session) -> Result<(), Error> {
    let flag = std::env::var(FLAG).unwrap();
    if session.rank() == 1 {
        for number in 0..10u64 {
            let mut buffer = [0; 8];
            session.recv(0, 1, &mut buffer)?;
            assert_eq!(u64::from_le_bytes(buffer), number);
        }
        std::fs::write(&flag, "").unwrap();
        return session.barrier();
    }
    let send = |number: u64| session.isend(1, 1, number.to_le_bytes());
    let sends = (0..10).map(send).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    while !std::path::Path::new(&flag).exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "no thread sends what is held");
    }
    sends.into_iter().try_for_each(|send| send.wait().map(drop))?;
    session.barrier()
}

#[test]
fn held_messages_leave_while_their_sender_computes() {
    for (policy, spare) in
        pioman::policy::NAMES.map(|name| (name, "4")).into_iter().chain([("load-aware", "0")])
    {
        let flag =
            std::env::temp_dir().join(format!("newmad-{}-{policy}-{spare}", std::process::id()));
        let env = [
            ("NMAD_DRIVER", "tcp"),
            ("NMAD_STRATEGY", "aggreg"),
            ("PIOM_POLICY", policy),
            ("PIOM_SPARE_LWP", spare),
            (FLAG, flag.to_str().unwrap()),
        ];
        launch("hold", 2, &env).succeed(LIMIT);
        std::fs::remove_file(&flag).unwrap();
    }
}

fn alone(session: &Session) -> Result<(), Error> {
    session.barrier()
}

#[test]
fn sessions_that_measure_when_they_open_work_as_others_do() {
    for driver in common::drivers(&["shm", "tcp", "tcp+tcp", "shm+tcp"]) {
        let env = [("NMAD_SAMPLING", "now"), ("NMAD_DRIVER", driver)];
        launch("bursts", 2, &env).succeed(LIMIT);
        launch("alone", 4, &env).succeed(LIMIT);
        launch("alone", 1, &env).succeed(LIMIT);
    }
    let env = [("NMAD_SAMPLING", "now"), ("NMAD_DRIVER", "tcp"), ("NMAD_RDV_THRESHOLD", "100")];
    launch("bursts", 2, &env).succeed(LIMIT);
}

/// Messages from nothing to some megabytes, there and back, by whatever strategy.
fn sizes(session: &Session) -> Result<(), Error> {
    let peer = 1 - session.rank();
    let mut buffer = vec![0; 6_000_000];
    for (number, len) in [0, 1, 100_000, 300_000, 1 << 20, 6_000_000].into_iter().enumerate() {
        let data = message(number as u64, len);
        for _ in 0..5 {
            let send = session.isend(peer, 3, data.clone())?;
            buffer.fill(0);
            assert_eq!(session.recv(peer, 3, &mut buffer)?.len, len);
            assert!(buffer[..len] == data);
            send.wait()?;
        }
    }
    Ok(())
}

#[test]
fn large_messages_go_over_several_rails_at_once() {
    for driver in ["tcp+tcp", "tcp+tcp+tcp", "shm+tcp"] {
        for strategy in ["default", "split_balance"] {
            let env = [("NMAD_STRATEGY", strategy), ("NMAD_DRIVER", driver), ("NMAD_CMA", "0")];
            launch("sizes", 2, &env).succeed(LIMIT);
        }
    }
}

#[test]
fn large_messages_arrive_when_idle_cores_decide_in_how_many_parts() {
    let driver = ("NMAD_DRIVER", "tcp+tcp");
    // Sampled, or the two would be taken for rails that gain nothing from each other.
    for cores in ["1", "3"] {
        let idle = [("NMAD_CHUNKS", "idle"), ("MARCEL_NVP", cores)];
        let env = [driver, ("NMAD_SAMPLING", "now"), idle[0], idle[1]];
        launch("sizes", 2, &env).succeed(LIMIT);
    }
    let ended = launch("alone", 1, &[("NMAD_CHUNKS", "many")]).end(LIMIT);
    assert_ne!(ended[0].code, Some(0));
    let text = &ended[0].text;
    assert!(text.contains("NMAD_CHUNKS") && text.contains("idle"), "{text}");
}

#[test]
fn a_strategy_that_there_is_not_is_named_with_those_that_there_are() {
    let ended = launch("alone", 1, &[("NMAD_STRATEGY", "clever")]).end(LIMIT);
    assert_ne!(ended[0].code, Some(0));
    let text = &ended[0].text;
    assert!(text.contains("NMAD_STRATEGY") && text.contains("aggreg"), "{text}");
}
