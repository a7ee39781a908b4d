//! What the ranks do and what befalls them, made from a seed.

use super::Random;
use super::network::Nature;
use crate::engine::core::Config;

pub(super) const RANKS: u32 = 3;
pub(super) const THRESHOLD: usize = 120;
/// A parting that is shorter than this must not end a gate.
pub(super) const SHORT_PARTING: u64 = 700;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Send {
        from: u32,
        to: u32,
        tag: u64,
        len: usize,
        waits: bool,
    },
    Recv {
        rank: u32,
        from: Option<u32>,
        tag: u64,
        room: usize,
        waits: bool,
    },
    /// Takes back the receive of that number, if it is still posted.
    Cancel {
        receive: usize,
    },
    Cut {
        rail: usize,
        ends: [u32; 2],
    },
    /// `silent`: nobody is told; what is sent arrives afterwards.
    Part {
        ends: [u32; 2],
        span: u64,
        silent: bool,
    },
    Crash {
        rank: u32,
    },
}

/// A schedule.
pub(super) struct Program {
    pub(super) natures: Vec<Nature>,
    pub(super) config: Config,
    /// With their times.
    pub(super) steps: Vec<(u64, Step)>,
    /// Links are cut while the sessions close.
    pub(super) rough_end: bool,
}

fn nature(random: &mut Random, breaks: bool, checksum: bool) -> Nature {
    let mut often = |most| if random.chance(400) { random.below(most) } else { 0 };
    let (drops, doubles, corrupts) = (often(40), often(40), often(40));
    Nature {
        breaks,
        copies: !breaks && random.chance(500),
        mtu: if random.chance(500) { 50 } else { 90 },
        room: random.range(1, 8) as usize,
        delay: [1, 5, 40][random.below(3) as usize],
        piece: random.range(1, 300) as usize,
        drops: if breaks { drops } else { 0 },
        doubles: if breaks { doubles } else { 0 },
        corrupts: if breaks && checksum { corrupts } else { 0 },
    }
}

fn len(random: &mut Random) -> usize {
    let (from, to) =
        [(0, 8), (45, 55), (95, 160), (110, 130), (300, 2000)][random.below(5) as usize];
    random.range(from, to) as usize
}

fn two(random: &mut Random) -> [u32; 2] {
    let first = random.below(u64::from(RANKS)) as u32;
    let second = (first + 1 + random.below(u64::from(RANKS) - 1) as u32) % RANKS;
    [first, second]
}

impl Program {
    pub(super) fn new(seed: u64) -> Program {
        let random = &mut Random(seed);
        let checksum = random.chance(300);
        let rails = random.range(1, 4) as usize;
        let solid = random.chance(350);
        let natures: Vec<Nature> =
            (0..rails).map(|rail| nature(random, !(rail == 0 && solid), checksum)).collect();
        let config = Config {
            kept: [600, 1000, 4000][random.below(3) as usize],
            repairs: true,
            checksum,
            credit: [1500, 4 << 20][random.below(2) as usize],
            ..Config::new(THRESHOLD, 1 << 20)
        };
        let span = [50, 1000, 6000][random.below(3) as usize];
        let mut steps = Vec::new();
        let rank = |random: &mut Random| random.below(u64::from(RANKS)) as u32;
        for _ in 0..random.range(1, 50) {
            let waits = random.chance(500);
            let tag = random.below(3);
            let step = match random.below(9) {
                0..=3 => Step::Send {
                    from: rank(random),
                    to: rank(random),
                    tag,
                    len: len(random),
                    waits,
                },
                4..=7 => Step::Recv {
                    rank: rank(random),
                    from: random.chance(600).then(|| rank(random)),
                    tag,
                    room: if random.chance(700) { 2000 } else { len(random) },
                    waits,
                },
                _ => Step::Cancel { receive: random.below(20) as usize },
            };
            steps.push((random.below(span), step));
        }
        for _ in 0..if random.chance(500) { random.below(6) } else { 0 } {
            let rail = random.below(rails as u64) as usize;
            steps.push((random.below(span), Step::Cut { rail, ends: two(random) }));
        }
        if random.chance(150) {
            let span_of = if random.chance(500) { SHORT_PARTING } else { 12_000 };
            let (span_of, silent) = (random.range(1, span_of), random.chance(500));
            steps.push((
                random.below(span),
                Step::Part { ends: two(random), span: span_of, silent },
            ));
        }
        if random.chance(200) {
            steps.push((random.below(span), Step::Crash { rank: rank(random) }));
        }
        steps.sort_by_key(|step| step.0);
        Program { natures, config, steps, rough_end: random.chance(300) }
    }
}
