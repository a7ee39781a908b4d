//! The engine against an oracle in a world that fails: seeded schedules in virtual time over a network that delays,
//! drops, repeats, corrupts, cuts and parts, between ranks that crash. No threads and no clock: a seed is a schedule.
//!
//! `NEWMAD_FIRST` says from which seed on they are run, `NEWMAD_SEED` which one alone. `network` is
//! the virtual network and its driver, `program` what the ranks do, `asked` their requests, `world` the loop of events,
//! `managers` their connection managers, `oracle` what must hold.

mod asked;
mod managers;
mod network;
mod oracle;
mod program;
mod world;

/// A small generator of random numbers (splitmix64), so that a seed means the same for ever.
#[derive(Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
    pub(super) fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }
    /// True so many times in a thousand.
    pub(super) fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn one(seed: u64) -> Result<asked::Tally, String> {
    std::panic::catch_unwind(|| oracle::judge(seed)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
            .unwrap_or_default()
    })
}

#[test]
fn nothing_is_lost_doubled_or_stuck_whatever_fails() {
    judge_all(1_000);
}

#[test]
#[ignore = "a minute: cargo test --release -p newmad --lib -- --ignored --nocapture a_hundred_thousand"]
fn nothing_is_lost_in_a_hundred_thousand_schedules() {
    judge_all(100_000);
}

/// Judges this many schedules, over two cores at most.
fn judge_all(schedules: u64) {
    if let Some(seed) = number("NEWMAD_SEED") {
        oracle::judge(seed);
        return;
    }
    let first = number("NEWMAD_FIRST").unwrap_or(0);
    let next = std::sync::atomic::AtomicU64::new(first);
    let failed = std::sync::Mutex::new(None);
    let tally = std::sync::Mutex::new(asked::Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()).min(2) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= first + schedules || failed.lock().unwrap().is_some() {
                        return;
                    }
                    match one(seed) {
                        Ok(one) => tally.lock().unwrap().add(&one),
                        Err(why) => *failed.lock().unwrap() = Some((seed, why)),
                    }
                }
            });
        }
    });
    if let Some((seed, why)) = failed.into_inner().unwrap() {
        panic!("{why}\nagain: NEWMAD_SEED={seed} cargo test -p newmad --lib faults");
    }
    let tally = tally.into_inner().unwrap();
    println!("{schedules} schedules: {tally:?}");
    // The world did fail: a simulation in which nothing happens proves nothing.
    assert!(tally.messages > schedules && tally.cuts > 50 && tally.crashes > 50);
    assert!(
        tally.drops > 50
            && tally.doubles > 50
            && tally.corrupted > 50
            && tally.partings > 50
            && tally.leaves > 50
    );
}
