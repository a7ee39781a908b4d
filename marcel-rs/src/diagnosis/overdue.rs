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
        let lasts = self.begun.elapsed();
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
        let begun = Instant::now().checked_sub(Duration::from_millis(1500)).unwrap();
        let mut overdue = Overdue { begun, next: FIRST };
        assert!(overdue.due().is_some_and(|lasts| lasts >= Duration::from_millis(1500)));
        assert_eq!(overdue.at(), begun + 2 * FIRST);
        assert!(overdue.next < Duration::from_secs(3));
        let begun = Instant::now().checked_sub(Duration::from_secs(200)).unwrap();
        let mut overdue = Overdue { begun, next: FIRST };
        assert!(overdue.due().is_some() && overdue.due().is_none());
        assert_eq!(overdue.next, Duration::from_secs(256 - 64 + 64));
    }
}
