//! `split_balance`: large messages over all rails at once, in parts that end together.
//!
//! Each rail has a latency, a pace (both sampled) and a date at which it will be free of what it has to carry already.
//! A part of b bytes would be through at `free + latency + b · pace`. The best division has all parts end at one date
//! T: rails that would start only after T get nothing, and the shares of the others follow from
//!
//! ```text
//!   Σ (T − free − latency) / pace = length        over the rails that start before T
//! ```
//! solved by adding rails in the order in which they could start. More parts are more work, so a rail is left out when
//! its part would be short, or when T gains less than a split costs. Below that size, and whenever another rail
//! would come too late, one rail carries everything: the one that ends first.
//!
//! *Rails that are as fast as a core feeds them* (shared memory, sockets of one machine; and, to be careful, what was
//! never sampled) gain nothing from each other: one core at a time runs the engine, and copies for one or for the
//! other. Of those only the one that ends first takes part. So what is shared is never slower than the best rail
//! alone, and two networks are shared only after `mad sample`, or with `NMAD_SAMPLING=now`.
//!
//! *How many parts at most* (`NMAD_CHUNKS`):
//!
//! | `NMAD_CHUNKS` | no core idle | k cores idle |
//! |---|---|---|
//! | `rails`, as usual | as many rails as are worth it | the same |
//! | `idle` | one part, over the rail that ends first | at most 1 + k parts, over the rails with the longest shares |
//!
//! `idle` is the rule of \[Trahay09\], 7.2.4.2: a part cost a core, which copied it to its network, so with every core
//! computing the best network carried all. Here the core that has the engine gives all parts to the rails, one after
//! the other, whatever the knob says, and over sockets the kernel and the network carry them without a core of ours. So
//! the rails decide unless told otherwise. `idle` gives bandwidth away while the cores compute; it is there to compare,
//! and for rails that a core does have to feed.
//!
//! Rejected: that an idle core submits the second part while the engine's holder submits the first, and that the holder
//! waits for it at the end (fork and join inside the lock, so that no request, link or buffer has to outlive anything).
//! Two TCP rails of one machine gained 3 to 20 % at 1 MB, 8 to 25 % at 4 MB and 1 to 14 % at 16 MB. But whenever the
//! kernel took the other core away in the middle, the holder waited, with the lock, on the progress path: 33 µs in the
//! median, 1.35 ms in the worst hundredth, up to 11.4 ms. Parts that are lent beyond the lock would have each way in
//! which a request or a link can end wait for them.
//!
//! Short messages, and which rail they take: as `aggreg`; the small track is the rail of lowest latency in any case.

use crate::strategy::aggreg;
use crate::strategy::contract::Strategy;
use crate::strategy::contract::seal::Seal;
use crate::strategy::message::{Large, Lone, Rail};
use crate::strategy::packet::{Packet, Waiting};
use crate::wire::MAX_RAILS;

/// See the module.
pub(crate) struct SplitBalance;

/// A shorter part is not worth a rail.
const LEAST: usize = 16 * 1024;
/// What a further part costs both sides.
const SPLIT_NS: u64 = 5_000;

impl Strategy for SplitBalance {
    fn name(&self) -> &str {
        "split_balance"
    }

    fn fill(&self, waiting: &Waiting<'_>, packet: &mut Packet<'_>) {
        aggreg::Aggreg.fill(waiting, packet);
    }

    fn may_hold(&self) -> bool {
        true
    }

    fn hold(&self, lone: &Lone) -> bool {
        aggreg::burst(lone)
    }

    fn share(&self, large: &Large, rails: &[Rail], shares: &mut [usize]) {
        let copying = (0..rails.len()).filter(|&index| rails[index].copies);
        let fed = copying.min_by_key(|&index| rails[index].end_ns(large.len));
        let mut usable = [false; MAX_RAILS];
        for (index, (usable, rail)) in usable.iter_mut().zip(rails).enumerate() {
            *usable = !rail.copies || Some(index) == fed;
        }
        // Leave out the shortest part until all are worth their while, and no more than are wanted.
        while let Some(shortest) = divide(large.len, rails, &usable, shares) {
            let parts = shares.iter().filter(|&&share| share > 0).count();
            let ends = end(rails, shares).saturating_add(SPLIT_NS * (parts as u64 - 1));
            let alone = rails.iter().map(|rail| rail.end_ns(large.len)).min().unwrap_or(0);
            let few = parts <= large.most_parts();
            if few && shares[shortest] >= LEAST && ends < alone {
                return;
            }
            if parts <= 2 {
                break;
            }
            usable[shortest] = false;
        }
        // One rail: the one that ends first.
        shares.fill(0);
        let first = (0..rails.len()).min_by_key(|&index| rails[index].end_ns(large.len));
        if let Some(share) = first.and_then(|index| shares.get_mut(index)) {
            *share = large.len;
        }
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }
}

/// When the last part would be through.
fn end(rails: &[Rail], shares: &[usize]) -> u64 {
    let parts = rails.iter().zip(shares).filter(|(_, share)| **share > 0);
    parts.map(|(rail, &share)| rail.end_ns(share)).max().unwrap_or(0)
}

/// Divides `len` bytes over the usable rails so that all parts end together. The shortest part.
fn divide(
    len: usize,
    rails: &[Rail],
    usable: &[bool; MAX_RAILS],
    shares: &mut [usize],
) -> Option<usize> {
    shares.fill(0);
    let start = |rail: &Rail| rail.busy_ns.saturating_add(rail.latency_ns) as f64;
    let pace = |rail: &Rail| rail.mib_ns.max(1) as f64 / f64::from(1 << 20);
    let mut order = [0; MAX_RAILS];
    let mut count = 0;
    for index in (0..rails.len().min(MAX_RAILS)).filter(|&index| usable[index]) {
        let at = (0..count).find(|&at| start(&rails[order[at]]) > start(&rails[index]));
        order[at.unwrap_or(count)..=count].rotate_right(1);
        order[at.unwrap_or(count)] = index;
        count += 1;
    }
    // T over the first k rails, until the next one would start after it.
    let (mut bytes, mut speed, mut ends) = (len as f64, 0.0, f64::INFINITY);
    let mut used = 0;
    for &index in &order[..count] {
        let rail = &rails[index];
        if start(rail) >= ends {
            break;
        }
        bytes += start(rail) / pace(rail);
        speed += 1.0 / pace(rail);
        ends = bytes / speed;
        used += 1;
    }
    let mut left = len;
    for &index in &order[..used] {
        let share = ((ends - start(&rails[index])) / pace(&rails[index])) as usize;
        // Whole cache lines, so that no line is written by two.
        shares[index] = (share / 64 * 64).min(left);
        left -= shares[index];
    }
    shares[*order[..used].first()?] += left;
    (0..rails.len()).filter(|&index| shares[index] > 0).min_by_key(|&index| shares[index])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Chunks, Strategy};
    use proptest::prelude::{any, prop_assert, proptest};

    fn rail(latency_ns: u64, mib_ns: u64, busy_ns: u64) -> Rail {
        Rail { number: 0, latency_ns, mib_ns, busy_ns, copies: false }
    }

    fn share(len: usize, rails: &[Rail]) -> Vec<usize> {
        share_under(Chunks::Rails, 0, len, rails)
    }

    fn share_under(chunks: Chunks, idle: usize, len: usize, rails: &[Rail]) -> Vec<usize> {
        let mut shares = vec![0; rails.len()];
        SplitBalance.share(&Large { len, idle, chunks }, rails, &mut shares);
        assert_eq!(shares.iter().sum::<usize>(), len);
        shares
    }

    #[test]
    fn two_links_of_known_capacity_carry_their_part() {
        // 1 Gbit/s and 400 Mbit/s.
        let rails = [rail(50_000, 8_388_608, 0), rail(50_000, 20_971_520, 0)];
        for len in [256 << 10, 1 << 20, 16 << 20] {
            let shares = share(len, &rails);
            let part = shares[0] as f64 / len as f64;
            assert!((part - 1.0 / 1.4).abs() < 0.01, "{shares:?}");
        }
    }

    #[test]
    fn below_the_break_even_size_one_rail_is_used() {
        let rails = [rail(10_000, 1_000_000, 0), rail(60_000, 1_000_000, 0)];
        // The second could begin only when the first has sent 52 KB.
        for len in [1, 1000, 32 << 10, 50_000] {
            assert_eq!(share(len, &rails), [len, 0]);
        }
        let shares = share(1 << 20, &rails);
        assert!(shares[1] > 400_000 && shares[0] > shares[1], "{shares:?}");
    }

    #[test]
    fn a_busy_rail_gets_less_or_nothing_until_it_is_free() {
        let free = share(1 << 20, &[rail(1_000, 1_000_000, 0), rail(1_000, 1_000_000, 0)]);
        assert!(free[0].abs_diff(free[1]) <= 128, "{free:?}");
        let rails = [rail(1_000, 1_000_000, 500_000), rail(1_000, 1_000_000, 0)];
        let shares = share(1 << 20, &rails);
        // The other has half a mebibyte's time of a lead.
        assert!(shares[0] < shares[1] && shares[0] > 200_000, "{shares:?}");
        let rails = [rail(1_000, 1_000_000, 5_000_000), rail(1_000, 1_000_000, 0)];
        assert_eq!(share(1 << 20, &rails), [0, 1 << 20]);
    }

    #[test]
    fn of_rails_that_keep_the_core_busy_one_is_used() {
        let mut rails = [rail(1_000, 1_000_000, 0), rail(1_000, 900_000, 0)];
        rails.iter_mut().for_each(|rail| rail.copies = true);
        assert_eq!(share(1 << 20, &rails), [0, 1 << 20]);
        rails[1].copies = false;
        assert!(share(1 << 20, &rails)[1] < 1 << 20);
    }

    #[test]
    fn one_part_more_for_each_idle_core_where_they_count() {
        let len = 4 << 20;
        // The second is the best alone, the third the worst.
        let rails =
            [rail(2_000, 1_100_000, 0), rail(1_000, 1_000_000, 0), rail(3_000, 1_500_000, 0)];
        let used = |shares: &[usize]| shares.iter().map(|&share| share > 0).collect::<Vec<_>>();
        let idle = |cores| used(&share_under(Chunks::Idle, cores, len, &rails));
        assert_eq!(share_under(Chunks::Idle, 0, len, &rails), [0, len, 0]);
        assert_eq!(idle(1), [true, true, false]);
        assert_eq!(idle(2), [true; 3]);
        assert_eq!(idle(usize::MAX), [true; 3]);
        let all = share(len, &rails);
        for cores in 0..3 {
            assert_eq!(share_under(Chunks::Rails, cores, len, &rails), all, "whatever the load");
        }
        assert_eq!(used(&all), [true; 3]);
        // Idle cores are no reason to use a rail that is not worth it.
        let far = [rail(1_000, 1_000_000, 0), rail(1_000, 1_000_000, 50_000_000)];
        assert_eq!(share_under(Chunks::Idle, 7, len, &far), [len, 0]);
    }

    proptest! {
        #[test]
        fn parts_are_never_more_than_wanted_and_never_later_than_the_best_rail_alone(
            len in 1usize..(64 << 20),
            idle in 0usize..MAX_RAILS,
            rails in proptest::collection::vec((0u64..200_000, 1u64..50_000_000, 0u64..10_000_000), 1..=MAX_RAILS),
        ) {
            let rails: Vec<Rail> = rails.into_iter().map(|(l, p, b)| rail(l, p, b)).collect();
            let shares = share_under(Chunks::Idle, idle, len, &rails);
            prop_assert!(shares.iter().filter(|&&share| share > 0).count() <= 1 + idle);
            let alone = rails.iter().map(|rail| rail.end_ns(len)).min().unwrap();
            prop_assert!(end(&rails, &shares) <= alone, "{shares:?}");
        }

        #[test]
        fn parts_end_together_and_never_later_than_the_best_rail_alone(
            len in 1usize..(64 << 20),
            rails in proptest::collection::vec((0u64..200_000, 1u64..50_000_000, 0u64..10_000_000), 1..=MAX_RAILS),
        ) {
            let rails: Vec<Rail> = rails.into_iter().map(|(l, p, b)| rail(l, p, b)).collect();
            let shares = share(len, &rails);
            let alone = rails.iter().map(|rail| rail.end_ns(len)).min().unwrap();
            prop_assert!(end(&rails, &shares) <= alone);
            let parts: Vec<(usize, u64)> = shares.iter().zip(&rails).filter(|(share, _)| **share > 0)
                .map(|(&share, rail)| (share, rail.end_ns(share))).collect();
            if parts.len() > 1 {
                for (index, &(share, ends)) in parts.iter().enumerate() {
                    prop_assert!(share >= LEAST);
                    // Rounding to cache lines moves at most so many bytes.
                    let slack = 64 * MAX_RAILS as u64 * rails.iter().map(|rail| rail.mib_ns).max().unwrap() / (1 << 20);
                    prop_assert!(ends.abs_diff(parts[0].1) <= slack + 2, "{index}: {parts:?}");
                }
            }
        }

        #[test]
        fn extreme_figures_are_survived(
            len: usize, rails in proptest::collection::vec(any::<(u64, u64, u64)>(), 0..=MAX_RAILS),
        ) {
            let rails: Vec<Rail> = rails.into_iter().map(|(l, p, b)| rail(l, p, b)).collect();
            let mut shares = vec![0; rails.len()];
            let large = Large { len, idle: 0, chunks: Chunks::Rails };
            SplitBalance.share(&large, &rails, &mut shares);
        }
    }
}
