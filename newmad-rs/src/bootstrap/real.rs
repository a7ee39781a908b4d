//! The clients against the process managers of others: real processes of this very test binary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::from_environment;
use crate::sys;

#[path = "../../tests/common/managers.rs"]
mod managers;

pub(super) use managers::skip;

const SCENARIO: &str = "NEWMAD_BOOTSTRAP_SCENARIO";
const LIMIT: Duration = Duration::from_secs(60);

fn soon() -> Instant {
    sys::deadline(Duration::from_secs(30))
}

/// The card of a rank: long, and of every kind of byte that a protocol might stumble over.
fn card(rank: u32, len: usize) -> String {
    format!("rank {rank};cmd=put key=x\n%\\\"é{}", "0123456789".repeat(len / 10))
}

/// Runs in the processes that the other tests start; does nothing otherwise.
#[test]
fn child() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let (protocol, scenario) = scenario.split_once(' ').unwrap();
    let mut boot = from_environment(Some(protocol), soon()).unwrap();
    let (rank, size) = (boot.rank(), boot.size());
    match scenario {
        "cards" => {
            boot.publish(&card(rank, 4000), soon()).unwrap();
            boot.fence(soon()).unwrap();
            for peer in (0..size).rev() {
                assert_eq!(boot.card_of(peer, soon()).unwrap(), card(peer, 4000));
            }
            // A fence may be gone to again.
            boot.fence(soon()).unwrap();
            boot.last_fence(soon()).unwrap();
            boot.finish().unwrap();
            println!("rank {rank} of {size} has all cards");
        }
        "late" if rank == 0 => {
            let soon = sys::deadline(Duration::from_millis(300));
            // Hydra answers a fence of version 2 at once, and holds back what is got after it.
            let text = boot.fence(soon).and_then(|()| boot.card_of(1, soon)).unwrap_err();
            let text = text.to_string();
            assert!(text.contains("in time"), "{text}");
            println!("rank {rank} has waited long enough");
        }
        // The others do not come to the fence, but they live on until rank 0 has given up.
        "late" => std::thread::sleep(Duration::from_secs(2)),
        "absent" => {
            boot.fence(soon()).unwrap();
            let missing =
                boot.get(0, "no-rank-has-put-this", sys::deadline(Duration::from_secs(1)));
            println!("rank {rank} was told: {}", missing.unwrap_err());
            boot.last_fence(soon()).unwrap();
            boot.finish().unwrap();
        }
        // The scenario goes on with the path of a file, which the last rank makes.
        last => {
            let came = Path::new(last.strip_prefix("last ").expect("a known scenario"));
            if rank == size - 1 {
                std::thread::sleep(Duration::from_millis(500));
                std::fs::write(came, "").unwrap();
            }
            boot.last_fence(soon()).unwrap();
            assert!(came.exists(), "rank {rank} went before the last one had come");
            boot.finish().unwrap();
        }
    }
}

fn run(mut manager: Command, protocol: &str, scenario: &str) -> managers::Ended {
    let me: PathBuf = std::env::current_exe().unwrap();
    manager.arg(me).args(["--exact", "bootstrap::real::child", "--nocapture", "--test-threads=1"]);
    manager.env(SCENARIO, format!("{protocol} {scenario}"));
    managers::run(&mut manager, LIMIT)
}

fn everybody_gets_everybodys_card(manager: Option<Command>, protocol: &str, size: usize) {
    let Some(manager) = manager else { return };
    let ended = run(manager, protocol, "cards");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for rank in 0..size {
        let line = format!("rank {rank} of {size} has all cards");
        assert!(ended.text.contains(&line), "{ended:#?}");
    }
}

fn nobody_waits_for_ever(manager: Option<Command>, protocol: &str) {
    let Some(manager) = manager else { return };
    let ended = run(manager, protocol, "late");
    assert!(ended.text.contains("rank 0 has waited long enough"), "{ended:#?}");
}

fn what_nobody_has_put_is_an_error(manager: Option<Command>, protocol: &str) {
    let Some(manager) = manager else { return };
    let ended = run(manager, protocol, "absent");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.text.contains("rank 1 was told"), "{ended:#?}");
}

fn nobody_goes_before_all_have_come(manager: Option<Command>, protocol: &str) {
    let Some(manager) = manager else { return };
    let came = std::env::temp_dir().join(format!("newmad-last-{}", std::process::id()));
    let ended = run(manager, protocol, &format!("last {}", came.display()));
    let _ = std::fs::remove_file(&came);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}

#[test]
fn hydra_by_version_1() {
    everybody_gets_everybodys_card(managers::hydra(4), "pmi1", 4);
    nobody_waits_for_ever(managers::hydra(2), "pmi1");
    what_nobody_has_put_is_an_error(managers::hydra(2), "pmi1");
}

#[test]
fn hydra_by_version_2() {
    everybody_gets_everybodys_card(managers::hydra(4), "pmi2", 4);
    nobody_waits_for_ever(managers::hydra(2), "pmi2");
    what_nobody_has_put_is_an_error(managers::hydra(2), "pmi2");
}

/// With a shell between the process manager and the process, its library is not found, and the system's is taken.
#[test]
fn prrte_by_pmix_with_the_systems_library() {
    // SAFETY: initialisers of this library, and of those that it needs, set up their own data.
    if unsafe { libloading::Library::new("libpmix.so.2") }.is_err() {
        return skip("libpmix.so.2 is not installed (apt install libpmix2)");
    }
    let Some(mut manager) = managers::prrte(4) else { return };
    manager.args(["sh", "-c", r#""$0" "$@"; exit $?"#]);
    everybody_gets_everybodys_card(Some(manager), "pmix", 4);
}

#[test]
fn prrte_by_pmix() {
    everybody_gets_everybodys_card(managers::prrte(4), "pmix", 4);
    nobody_goes_before_all_have_come(managers::prrte(4), "pmix");
    nobody_waits_for_ever(managers::prrte(2), "pmix");
    what_nobody_has_put_is_an_error(managers::prrte(2), "pmix");
}

/// What it calls pmi2 speaks version 1 as well.
#[test]
fn slurm_by_version_1() {
    everybody_gets_everybodys_card(managers::slurm(4, "pmi2"), "pmi1", 4);
    everybody_gets_everybodys_card(two_nodes("pmi2"), "pmi1", 4);
    nobody_waits_for_ever(managers::slurm(2, "pmi2"), "pmi1");
    what_nobody_has_put_is_an_error(managers::slurm(2, "pmi2"), "pmi1");
}

#[test]
fn slurm_by_version_2() {
    everybody_gets_everybodys_card(managers::slurm(4, "pmi2"), "pmi2", 4);
    everybody_gets_everybodys_card(two_nodes("pmi2"), "pmi2", 4);
    nobody_waits_for_ever(managers::slurm(2, "pmi2"), "pmi2");
    what_nobody_has_put_is_an_error(managers::slurm(2, "pmi2"), "pmi2");
}

#[test]
fn slurm_by_pmix() {
    everybody_gets_everybodys_card(managers::slurm(4, "pmix"), "pmix", 4);
    everybody_gets_everybodys_card(two_nodes("pmix"), "pmix", 4);
    nobody_goes_before_all_have_come(two_nodes("pmix"), "pmix");
    nobody_waits_for_ever(managers::slurm(2, "pmix"), "pmix");
    what_nobody_has_put_is_an_error(managers::slurm(2, "pmix"), "pmix");
}

fn two_nodes(kind: &str) -> Option<Command> {
    let mut manager = managers::slurm(4, kind)?;
    manager.args(["-N", "2"]);
    Some(manager)
}
