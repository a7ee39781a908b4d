//! One loop for all that spins: polls as often, or for as long, as a budget allows.

use std::time::{Duration, Instant};

/// What one poll has brought.
pub(super) enum Poll {
    /// What is waited for.
    Done,
    /// Something else.
    Events,
    Nothing,
    /// The caller is not to spin any longer.
    Stop,
}

/// How long a loop spins.
pub(super) enum Budget {
    /// So many polls.
    Polls(u32),
    /// Until polls have brought nothing for so long.
    InVain(Duration),
    /// For so long, whatever polls bring.
    Within(Duration),
}

/// Spins until `poll` is done, and says so; false: the budget is spent, or `poll` stops.
#[inline(always)]
pub(super) fn spin(budget: Budget, mut poll: impl FnMut() -> Poll) -> bool {
    match budget {
        Budget::Polls(most) => {
            for _ in 0..most {
                match poll() {
                    Poll::Done => return true,
                    Poll::Stop => return false,
                    Poll::Events | Poll::Nothing => {}
                }
            }
            false
        }
        Budget::Within(limit) => {
            let begun = Instant::now();
            loop {
                match poll() {
                    Poll::Done => return true,
                    Poll::Stop => return false,
                    Poll::Events | Poll::Nothing if begun.elapsed() > limit => return false,
                    Poll::Events | Poll::Nothing => {}
                }
            }
        }
        Budget::InVain(limit) => {
            let mut since = Instant::now();
            loop {
                let brought = poll();
                let now = Instant::now();
                match brought {
                    Poll::Done => return true,
                    Poll::Stop => return false,
                    Poll::Events => since = now,
                    Poll::Nothing if now - since > limit => return false,
                    Poll::Nothing => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_polls_is_kept_and_ends_early() {
        let mut polls = 0;
        let poll = |content: u32| {
            polls = 0;
            let done = spin(Budget::Polls(5), || {
                polls += 1;
                if polls == content { Poll::Done } else { Poll::Nothing }
            });
            (done, polls)
        };
        let mut poll = poll;
        assert_eq!(poll(9), (false, 5));
        assert_eq!(poll(3), (true, 3));
        assert!(!spin(Budget::Polls(5), || Poll::Stop));
        assert!(!spin(Budget::Polls(0), || Poll::Done));
    }

    #[test]
    fn events_do_not_renew_a_time_that_is_fixed() {
        let (limit, begun) = (Duration::from_millis(2), Instant::now());
        assert!(!spin(Budget::Within(limit), || Poll::Events) && begun.elapsed() >= limit);
        assert!(spin(Budget::Within(limit), || Poll::Done));
        assert!(!spin(Budget::Within(limit), || Poll::Stop));
    }

    #[test]
    fn events_renew_a_budget_of_time() {
        let (limit, mut events) = (Duration::from_millis(2), 3);
        let begun = Instant::now();
        let done = spin(Budget::InVain(limit), || {
            if events == 0 {
                return Poll::Nothing;
            }
            events -= 1;
            std::thread::sleep(limit);
            Poll::Events
        });
        assert!(!done && begun.elapsed() >= 4 * limit);
    }
}
