//! When a wait that should be short is told of: after a second, and again after growing pauses.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(64);

/// A wait that is told of at 1, 2, 4, 8 … s, later once in 64 s.
#[derive(Debug)]
pub struct Overdue {
    begun: Instant,
    next: Duration,
}

impl Overdue {
    /// A wait that begins now.
    #[expect(clippy::new_without_default, reason = "it reads the clock")]
    pub fn new() -> Overdue {
        Overdue { begun: Instant::now(), next: FIRST }
    }

    /// When it is to be told of.
    pub fn at(&self) -> Instant {
        self.begun + self.next
    }

    /// For how long it lasts, if it is to be told of now; each time once.
    pub fn due(&mut self) -> Option<Duration> {
        self.due_after(self.begun.elapsed())
    }

    fn due_after(&mut self, lasts: Duration) -> Option<Duration> {
        if lasts < self.next {
            return None;
        }
        while self.next <= lasts {
            self.next += self.next.min(LONGEST);
        }
        Some(lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_minute() {
        let mut overdue = Overdue::new();
        let mut due =
            |ms| overdue.due_after(Duration::from_millis(ms)).map(|_| overdue.next.as_secs());
        assert_eq!([due(999), due(1500), due(1999), due(2000)], [None, Some(2), None, Some(4)]);
        assert_eq!([due(200_000), due(200_000)], [Some(256), None]);
    }
}
