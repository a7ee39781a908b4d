//! Sessions under the process managers of others: what works under `mad run` works there, and a rank that fails ends
//! the job there too.

#[path = "common/managers.rs"]
mod managers;

use std::process::Command;
use std::time::Duration;

use newmad::{ANY, Error, Launched, Session};

const SCENARIO: &str = "NEWMAD_TEST_SCENARIO";
/// Far above what any of it takes: the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    if scenario == "texts" {
        return texts();
    }
    let run = match scenario.as_str() {
        "exchange" => exchange,
        "fails" => fails,
        "dies" => dies,
        "killed" => killed,
        other => panic!("unknown scenario {other}"),
    };
    if let Err(error) = newmad::run(run).and_then(|result| result) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// No session: rank 0 hears a short text of every rank, at whatever time it comes.
fn texts() {
    let me = Launched::find().unwrap();
    let (rank, size) = (me.rank(), me.size());
    let of = |rank: u32| format!("rank {rank} at [::1]:7 = {}", "x;y%".repeat(500));
    std::thread::sleep(Duration::from_millis(100 * u64::from(rank)));
    let texts = me.gather(&of(rank)).unwrap();
    assert_eq!(texts, (0..if rank == 0 { size } else { 0 }).map(of).collect::<Vec<_>>());
    println!("rank {rank} of {size} heard {} texts", texts.len());
}

/// All ranks to all ranks, short and long, then a barrier.
fn exchange(session: &Session) -> Result<(), Error> {
    let (rank, size) = (session.rank(), session.size());
    for len in [8, 300_000] {
        let sends: Vec<_> = (0..size)
            .filter(|&peer| peer != rank)
            .map(|peer| session.isend(peer, 5, vec![rank as u8; len]))
            .collect::<Result<_, _>>()?;
        let mut seen = vec![false; size as usize];
        for _ in 1..size {
            let mut buffer = vec![0; len];
            let status = session.recv(ANY, 5, &mut buffer)?;
            assert_eq!(status.len, len);
            assert!(buffer.iter().all(|&byte| u32::from(byte) == status.source));
            assert!(!std::mem::replace(&mut seen[status.source as usize], true));
        }
        for send in sends {
            send.wait()?;
        }
        session.barrier()?;
    }
    println!("rank {rank} of {size} heard all ranks");
    Ok(())
}

/// One rank fails while the others wait for it, for ever unless they are ended.
fn fails(session: &Session) -> Result<(), Error> {
    if session.rank() == 1 {
        session.barrier()?;
        eprintln!("rank 1 gives up");
        std::process::exit(3);
    }
    session.barrier()?;
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// One rank ends without a word; the others, which the process manager leaves alone, are told. (If it is killed, Hydra
/// kills the others, whatever it was asked to do.)
fn dies(session: &Session) -> Result<(), Error> {
    // SAFETY: takes no pointers, runs nothing of this process any more.
    ends(session, || unsafe { libc::_exit(3) })
}

/// One rank is killed.
fn killed(session: &Session) -> Result<(), Error> {
    ends(session, || {
        // SAFETY: takes no pointers.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    })
}

fn ends(session: &Session, end: fn()) -> Result<(), Error> {
    session.barrier()?;
    if session.rank() == 1 {
        end();
    }
    match session.recv(1, 1, &mut [0]) {
        Err(Error::PeerDied { rank: 1, .. }) => {
            println!("rank {} was told in time", session.rank())
        }
        other => panic!("{other:?}"),
    }
    Ok(())
}

fn run(mut manager: Command, scenario: &str, env: &[(&str, &str)]) -> managers::Ended {
    manager.arg(std::env::current_exe().unwrap());
    manager.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    manager.env(SCENARIO, scenario).envs(env.iter().copied());
    managers::run(&mut manager, LIMIT)
}

fn succeeds(manager: Option<Command>, size: usize, env: &[(&str, &str)]) {
    let Some(manager) = manager else { return };
    let ended = run(manager, "exchange", env);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for rank in 0..size {
        let line = format!("rank {rank} of {size} heard all ranks");
        assert!(ended.text.contains(&line), "{ended:#?}");
    }
}

#[test]
fn hydra_starts_sessions() {
    for driver in ["shm", "tcp"] {
        succeeds(managers::hydra(4), 4, &[("NMAD_DRIVER", driver)]);
    }
    succeeds(managers::hydra(4), 4, &[("NMAD_BOOTSTRAP", "pmi2")]);
    succeeds(managers::hydra(1), 1, &[]);
}

#[test]
fn prrte_starts_sessions() {
    for driver in ["shm", "tcp"] {
        succeeds(managers::prrte(4), 4, &[("NMAD_DRIVER", driver)]);
    }
    succeeds(managers::prrte(1), 1, &[]);
}

#[test]
fn programs_without_a_session_find_each_other() {
    let hydra2 = [("NMAD_BOOTSTRAP", "pmi2")];
    for (manager, env) in [
        (managers::hydra(3), &[][..]),
        (managers::hydra(3), &hydra2[..]),
        (managers::prrte(3), &[][..]),
    ] {
        let Some(manager) = manager else { continue };
        let ended = run(manager, "texts", env);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        for (rank, texts) in [(0, 3), (1, 0), (2, 0)] {
            let line = format!("rank {rank} of 3 heard {texts} texts");
            assert!(ended.text.contains(&line), "{ended:#?}");
        }
    }
}

/// As below a program of another kind, which hands its variables on but not its descriptors.
#[test]
fn variables_without_their_descriptor_are_nobodys() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture"]).env(SCENARIO, "texts");
    child.envs([("PMI_FD", "983"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")]);
    let ended = managers::run(&mut child, LIMIT);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.text.contains("rank 0 of 1 heard 1 texts"), "{ended:#?}");
}

#[test]
fn a_rank_that_fails_ends_the_job() {
    for manager in [managers::hydra(3), managers::prrte(3)].into_iter().flatten() {
        let ended = run(manager, "fails", &[]);
        // Its status, or that of those which were killed then.
        assert_ne!(ended.code, Some(0), "{ended:#?}");
        assert!(ended.text.contains("rank 1 gives up"), "{ended:#?}");
    }
}

#[test]
fn ranks_that_hydra_leaves_alone_are_told_of_a_death() {
    let Some(mut manager) = managers::hydra(3) else { return };
    manager.arg("-disable-auto-cleanup");
    let ended = run(manager, "dies", &[]);
    for rank in [0, 2] {
        assert!(ended.text.contains(&format!("rank {rank} was told in time")), "{ended:#?}");
    }
}

#[test]
fn a_protocol_that_is_not_offered_is_an_error() {
    let Some(manager) = managers::hydra(2) else { return };
    let ended = run(manager, "exchange", &[("NMAD_BOOTSTRAP", "pmix")]);
    assert_ne!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.text.contains("NMAD_BOOTSTRAP=pmix"), "{ended:#?}");
}

#[test]
fn alone_is_alone_under_any_process_manager() {
    let Some(manager) = managers::hydra(2) else { return };
    let ended = run(manager, "exchange", &[("NMAD_BOOTSTRAP", "alone")]);
    assert_eq!(ended.text.matches("rank 0 of 1 heard all ranks").count(), 2, "{ended:#?}");
}

/// What Slurm's three ways are called, and what each is for us: its pmi2 speaks both versions.
const SLURM: [(&str, &str); 3] = [("pmi2", "pmi1"), ("pmi2", "pmi2"), ("pmix", "pmix")];

#[test]
fn slurm_starts_sessions() {
    for (kind, protocol) in SLURM {
        for (driver, nodes) in [("shm", "1"), ("tcp", "2")] {
            let Some(mut manager) = managers::slurm(4, kind) else { return };
            manager.args(["-N", nodes]);
            succeeds(Some(manager), 4, &[("NMAD_DRIVER", driver), ("NMAD_BOOTSTRAP", protocol)]);
        }
        succeeds(managers::slurm(1, kind), 1, &[]);
    }
}

#[test]
fn processes_that_slurm_does_not_introduce_are_told_what_to_do() {
    let Some(manager) = managers::slurm(2, "none") else { return };
    let ended = run(manager, "exchange", &[]);
    assert_ne!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.text.matches("use `srun --mpi=pmi2`").count(), 2, "{ended:#?}");
    succeeds(managers::slurm(1, "none"), 1, &[]);
    let manager = managers::slurm(2, "none").unwrap();
    let ended = run(manager, "exchange", &[("NMAD_BOOTSTRAP", "alone")]);
    assert_eq!(ended.text.matches("rank 0 of 1 heard all ranks").count(), 2, "{ended:#?}");
}

/// Slurm leaves the others alone, unless it is asked: a rank that waits for it gets an error, and srun names it and
/// ends.
#[test]
fn deaths_under_slurm_are_reported() {
    for (kind, protocol) in SLURM {
        for (scenario, options, code, said) in [
            ("dies", "--kill-on-bad-exit=0", 3, "task 1: Exited with exit code 3"),
            ("killed", "--kill-on-bad-exit=0", 128 + 9, "task 1: Killed"),
            ("fails", "--kill-on-bad-exit=1", 128 + 15, "task 1: Exited with exit code 3"),
        ] {
            let Some(mut manager) = managers::slurm(3, kind) else { return };
            manager.arg(options);
            let ended = run(manager, scenario, &[("NMAD_BOOTSTRAP", protocol)]);
            assert_eq!(ended.code, Some(code), "{ended:#?}");
            assert!(ended.text.contains(said), "{ended:#?}");
            for rank in [0, 2] {
                let told = ended.text.contains(&format!("rank {rank} was told in time"));
                assert_eq!(told, scenario != "fails", "{ended:#?}");
            }
        }
    }
}
