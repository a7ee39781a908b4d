//! What an event costs, all told, so that policies can be compared by one figure. Lower is better.
//!
//! A policy spends three things, and saves one at the price of another:
//! - *waiting*: the time from the event to its thread running again. A thread waits for it, and would use a core;
//! - *computation lost*: CPU time that a computation would have got. On a core that computes, whatever detection
//!   burns is lost, and so is what the computing threads themselves lose (ticks on their account, disturbed caches);
//! - *CPU burnt on cores where no thread computes*: power, and time of other processes.
//!
//! All three are microseconds of a core per event, so they can be added:
//!
//! ```text
//! score = 1 × waiting + 1 × lost + 1/20 × burnt            (µs per event; waiting: the mean)
//! ```
//!
//! Waiting and lost computation weigh the same: a program of computations and exchanges that depend on each other
//! ends later by the one as by the other. The mean counts, not the median: the slow events are part of the time.
//! Burnt time weighs 1/20: that is the *accepted overhead* of 5 % of [Trahay09] 5.3.2, by which polling for twenty
//! times the cost of a wake-up is as good as the wake-up. Users that pay for power or share the machine will want
//! more, owners of the machine less: the three parts are printed as metrics of their own (`detect_time`, `lost_time`,
//! `burnt_time`).
//!
//! Overall: the geometric mean over the workloads of the ratio to the best *fixed* policy of each (always-poll,
//! always-block, timer-only, dedicated), so that no workload counts more because its events are dearer.

/// What a µs of an event's detection weighs.
pub(super) const WAITING: f64 = 1.0;
/// What a µs of computation lost weighs.
pub(super) const LOST: f64 = 1.0;
/// What a µs of CPU burnt on a core where no thread computes weighs.
pub(super) const BURNT: f64 = 1.0 / 20.0;

/// Policies that do the same whatever happens.
pub(super) const FIXED: [&str; 4] = ["always-poll", "always-block", "timer-only", "dedicated"];

/// The score of an event: µs of waiting, of computation lost and of CPU burnt. What is lost and burnt are differences
/// of measured times; less than nothing is noise, and counts as nothing.
pub(super) fn score(waiting: f64, lost: f64, burnt: f64) -> f64 {
    WAITING * waiting + LOST * lost.max(0.0) + BURNT * burnt.max(0.0)
}

/// The geometric mean; `None` of nothing, or when something is not positive.
pub(super) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let sound = !ratios.is_empty() && ratios.iter().all(|&ratio| ratio > 0.0);
    sound.then(|| (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_for_twenty_wake_ups_is_as_good_as_one() {
        let (wake_up, poll) = (5.0, 0.0);
        assert_eq!(score(wake_up, 0.0, 0.0), score(poll, 0.0, 20.0 * wake_up));
        assert!(score(poll, wake_up * 1.1, 0.0) > score(wake_up, 0.0, 0.0));
        assert_eq!(score(wake_up, -wake_up, -wake_up), wake_up, "no policy gains by noise");
    }

    #[test]
    fn means_of_ratios_do_not_depend_on_the_order() {
        assert_eq!(geometric_mean(&[1.0, 4.0]), Some(2.0));
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
    }
}
