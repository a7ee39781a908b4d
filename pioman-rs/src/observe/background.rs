//! What the library does beside a program, held against what it may cost.

use std::fmt;
use std::time::Duration;

use super::figures::Counters;
use crate::progress::point::Point;

/// Wake-ups of the watcher that each event found by it may cost.
const PER_EVENT: u64 = 2;
/// Wake-ups of the watcher that each second may cost, beside those for events.
const PER_SECOND: f64 = 10.0;
/// The part of the program's time on cores that the library's kernel threads may take.
const SHARE: f64 = 0.02;

/// What the background watcher and the library's other kernel threads have cost a program, and what they may cost.
///
/// The watcher may wake up twice for each event that it finds, and ten times a second; all the library's kernel threads
/// together may take 2 % of the time that the process spends on cores, or of a core's if it spends less. The bounds are for
/// programs whose processes have a core each.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// How often the background watcher woke up.
    pub wake_ups: u64,
    /// How often it may have.
    pub wake_ups_allowed: u64,
    /// Events that it found: nobody else looked in time.
    pub found: u64,
    /// The source that woke it most often, and how often.
    pub most_by: Option<(String, u64)>,
    /// The part of the time that the library's kernel threads took: between 0 and 1.
    pub share: f64,
    /// The one that took the most, and its time on a core.
    pub busiest: Option<(String, Duration)>,
}

impl Background {
    /// What these figures say.
    pub fn of(counters: &Counters) -> Background {
        let found = counters.sources.iter().map(|source| source.at(Point::Block).hits).sum();
        // A program that lasts less than a second has the wake-ups of one: its start is not to be judged.
        let seconds = counters.lasted.as_secs_f64().max(1.0);
        let (total, library) =
            counters.threads.split_last().map_or((Duration::ZERO, &[][..]), |all| (all.0.1, all.1));
        let time = total.max(counters.lasted).max(Duration::from_secs(1));
        let by = counters.sources.iter().map(|source| (source.name.clone(), source.wake_ups[1]));
        Background {
            wake_ups: counters.sleeps[1],
            wake_ups_allowed: PER_EVENT * found + (PER_SECOND * seconds) as u64,
            found,
            most_by: by.filter(|by| by.1 > 0).max_by_key(|by| by.1),
            share: library.iter().map(|thread| thread.1).sum::<Duration>().as_secs_f64()
                / time.as_secs_f64(),
            busiest: library.iter().max_by_key(|thread| thread.1).cloned(),
        }
    }

    /// Whether the watcher woke up no more often than it may.
    pub fn wakes_seldom(&self) -> bool {
        self.wake_ups <= self.wake_ups_allowed
    }

    /// Whether the kernel threads took no more time than they may.
    pub fn is_short(&self) -> bool {
        self.share <= SHARE
    }
}

impl fmt::Display for Background {
    /// A line, and one for each bound that is broken with what can be done.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "background: {} wake-ups of the watcher for {} events (at most {}), library's threads {:.1} % of the time (at \
             most {:.0} %)",
            self.wake_ups,
            self.found,
            self.wake_ups_allowed,
            100.0 * self.share,
            100.0 * SHARE,
        )?;
        if !self.wakes_seldom() {
            let by = self
                .most_by
                .as_ref()
                .map_or(String::new(), |(name, often)| format!(", {often} times by {name}"));
            writeln!(
                f,
                "  the watcher woke too often{by}: PIOM_POINTS=idle,switch,tick goes without it; `mad run --trace DIR` \
                 shows what rings"
            )?;
        }
        if !self.is_short() {
            let who = self.busiest.as_ref().map_or(String::new(), |(name, time)| {
                format!(", {name} the most with {:.0} ms", 1e3 * time.as_secs_f64())
            });
            writeln!(
                f,
                "  the library's threads took too long{who}: with a core for each process, `mad run --trace DIR` shows \
                 what they did; with fewer, `mad run --oversubscribed` starts fewer of them"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::figures::{Poller, Polls, SourceCounters};

    /// A program of `seconds`, whose watcher woke `sleeps` times and found `hits` events, and whose thread took `ms`.
    fn counters(seconds: u64, sleeps: u64, hits: u64, ms: u64) -> Counters {
        let mut points = [Polls::default(); Point::ALL.len()];
        points[Point::Block as usize] = Polls { polls: sleeps, hits };
        let pollers = vec![Poller { thread: "thread 1".into(), points }];
        let source = SourceCounters {
            name: "wire".into(),
            pollers,
            wake_ups: [0, sleeps],
            ..SourceCounters::default()
        };
        let total = Duration::from_secs(seconds);
        Counters {
            sources: vec![source],
            sleeps: [0, sleeps],
            threads: vec![
                ("pioman-watch".into(), Duration::from_millis(ms)),
                ("total".into(), total),
            ],
            lasted: total,
            ..Counters::default()
        }
    }

    #[test]
    fn each_bound_is_kept_or_named_with_a_way_out() {
        let kept = Background::of(&counters(10, 2 * 50 + 100, 50, 200));
        assert!(kept.wakes_seldom() && kept.is_short(), "{kept:?}");
        assert_eq!(kept.to_string().lines().count(), 1, "{kept}");

        let often = Background::of(&counters(10, 2 * 50 + 101, 50, 200));
        assert!(!often.wakes_seldom() && often.is_short(), "{often:?}");
        let text = often.to_string();
        assert!(
            text.contains("201 times by wire") && text.contains("PIOM_POINTS=idle,switch,tick"),
            "{text}"
        );

        let long = Background::of(&counters(10, 0, 0, 201));
        assert!(long.wakes_seldom() && !long.is_short(), "{long:?}");
        assert!(long.to_string().contains("pioman-watch the most with 201 ms"), "{long}");
    }

    #[test]
    fn the_start_of_a_program_is_not_judged() {
        let start = Background::of(&Counters {
            lasted: Duration::from_millis(1),
            ..counters(0, 10, 0, 20)
        });
        assert!(start.wakes_seldom() && start.is_short(), "{start:?}");
        assert!(Background::of(&Counters::default()).is_short());
    }
}
