//! What the ranks do and what befalls them, made from a seed.

use crate::gate::config::Config;
use crate::testing::simulation::network::{Nature, Random};

pub(super) const RANKS: u32 = 3;
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
        synchronous: bool,
        /// Data lies in pieces of so many bytes; 0: in one.
        spread: usize,
        priority: i8,
    },
    Recv {
        rank: u32,
        from: Option<u32>,
        tag: u64,
        mask: u64,
        room: usize,
        spread: usize,
    },
    /// `take`: what is found is held, and received.
    Probe {
        rank: u32,
        from: Option<u32>,
        tag: u64,
        mask: u64,
        take: bool,
    },
    /// Takes back the receive of that number, if it is still posted.
    Cancel {
        receive: usize,
    },
    Cut {
        rail: usize,
        ends: [u32; 2],
    },
    /// `silent`: no side is told; what is sent arrives afterwards.
    Part {
        ends: [u32; 2],
        span: u64,
        silent: bool,
    },
    Crash {
        rank: u32,
    },
    /// Closes its session while the others go on.
    Leave {
        rank: u32,
    },
    /// Its threads receive from `peer` on the nodes of another route now.
    Route {
        rank: u32,
        peer: u32,
        route: usize,
    },
}

/// A schedule.
pub(super) struct Program {
    pub(super) natures: Vec<Nature>,
    pub(super) config: Config,
    /// With their times.
    pub(super) steps: Vec<(u64, Step)>,
    /// Name of the strategy of every gate; none: one that answers by chance.
    pub(super) strategy: Option<&'static str>,
    /// The one that answers by chance also panics by chance.
    pub(super) panics: bool,
    /// Number of the first packet.
    pub(super) start: u32,
    /// Unexpected messages have no more room than there is from the start.
    pub(super) tight: bool,
    /// Links are cut while the sessions close.
    pub(super) rough_end: bool,
    /// The first rail that is virtual, of one adapter as all behind it. `None`: no rail is.
    pub(super) virtual_rails: Option<usize>,
}

fn nature(random: &mut Random, breaks: bool, checksum: bool) -> Nature {
    let mut often = |most| if random.chance(400) { random.below(most) } else { 0 };
    let (drops, doubles, corrupts) = (often(40), often(40), often(40));
    Nature {
        breaks,
        copies: !breaks && random.chance(500),
        reads: [None, Some(0), Some(500)][random.below(3) as usize],
        mtu: if random.chance(500) { 50 } else { 90 },
        room: random.range(1, 8) as usize,
        delay: [1, 5, 40][random.below(3) as usize],
        piece: random.range(1, 300) as usize,
        copy: 333,
        refusals: 100,
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
        let threshold = [120, 120, 0, 30, 400, 1500][random.below(6) as usize];
        let tight = random.chance(200);
        let config = Config {
            retransmit: [600, 1000, 4000][random.below(3) as usize],
            repairs: true,
            checksum,
            credit: [100, 1500, 4 << 20][random.below(3) as usize],
            ..Config::new(threshold, if tight { 0 } else { 1 << 20 })
        };
        let names = ["default", "aggreg", "prio", "split_balance"];
        let strategy = names.get(random.below(6) as usize).copied();
        let start = [0, u32::MAX - 5, i32::MAX as u32 - 5][random.below(3) as usize];
        let scattered = random.chance(400);
        let spread = move |random: &mut Random| {
            if scattered && random.chance(400) { random.range(1, 70) as usize } else { 0 }
        };
        let masks = random.chance(300);
        let mask = move |random: &mut Random| {
            if masks { [!0, !0, 1, 0][random.below(4) as usize] } else { !0 }
        };
        let span = [50, 1000, 6000][random.below(3) as usize];
        let mut steps = Vec::new();
        let rank = |random: &mut Random| random.below(u64::from(RANKS)) as u32;
        for _ in 0..random.range(1, 50) {
            let waits = random.chance(500);
            let tag = random.below(3);
            let step = match random.below(10) {
                0..=3 => Step::Send {
                    from: rank(random),
                    to: rank(random),
                    tag,
                    len: len(random),
                    waits,
                    synchronous: random.chance(150),
                    spread: spread(random),
                    priority: random.below(3) as i8,
                },
                4..=7 => Step::Recv {
                    rank: rank(random),
                    from: random.chance(600).then(|| rank(random)),
                    tag,
                    mask: mask(random),
                    spread: spread(random),
                    room: if random.chance(700) { 2000 } else { len(random) },
                },
                8 => Step::Probe {
                    rank: rank(random),
                    from: random.chance(600).then(|| rank(random)),
                    tag,
                    mask: mask(random),
                    take: random.chance(500),
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
        if random.chance(150) {
            steps.push((random.below(span), Step::Leave { rank: rank(random) }));
        }
        // Of its own, so that the other choices of a seed stay.
        let routes = &mut Random(seed ^ 0x726f_7574);
        let first = usize::from(solid);
        let virtual_rails = (rails >= first + 2 && routes.chance(600)).then_some(first);
        for _ in 0..if virtual_rails.is_some() { routes.below(12) } else { 0 } {
            let ([rank, peer], route) =
                (two(routes), routes.below((rails - first) as u64) as usize);
            steps.push((routes.below(span), Step::Route { rank, peer, route }));
        }
        steps.sort_by_key(|step| step.0);
        let rough_end = random.chance(300);
        let panics = false;
        Program { natures, config, steps, strategy, panics, start, tight, rough_end, virtual_rails }
    }
}
