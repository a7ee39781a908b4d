//! The policy that learns: it polls for the time that has been cheapest ([`crate::progress::policy::history`]), at the
//! prices of the present load.
//!
//! The price of a sleep is not the wake-up alone. While a core is idle, polling takes no time from a computation; what
//! it costs is power, and time of other processes that the manager cannot see. [`WORTH`] µs of it are accepted for each
//! µs of a wake-up that is saved (the *accepted overhead* of 5 % of \[Trahay09\], 5.3.2: 1/20). So `C` in the formula
//! is `WORTH` times the measured wake-up.
//!
//! While every core computes, a µs of polling is a µs that a computation does not get. But a sleep takes from it as
//! well (arming, two switches and the wake-up are work for that core), and the delay comes on top: `C` is
//! [`WORTH_FULL`] times the wake-up then. So a waiter polls on a full machine, too, for answers that come sooner than
//! that. (Only a waiter does: there is no idle virtual processor.) (`mad bench policies`, ping-pong while every core
//! computes: asleep, an event costs 6 µs of delay and 7 to 9 µs of CPU time; polled for, 0.3 µs and 2 µs.)

use std::time::Duration;

use crate::progress::policy::contract::{Asker, Choice, Limit, Policy, Request, Snapshot};
use crate::progress::policy::hints::Hint;
use crate::progress::policy::hints::Method;
use crate::progress::policy::history::Spin;
use crate::progress::policy::load_aware::{LONG_SPIN, in_vain, leaving, poll_for, too_loaded};

/// What a µs of delay is worth, in µs of an otherwise idle core.
const WORTH: u32 = 20;

/// What a sleep costs where every core computes, in wake-ups: one for the delay, two for the work.
const WORTH_FULL: u32 = 3;

/// A wake-up that takes longer is made longer by other processes, or by a virtual machine's timers: polling twenty
/// times as long would add to it.
const LONGEST_WAKE_UP: Duration = Duration::from_micros(8);

/// See the module's description.
pub(crate) struct Adaptive;

/// The price of a sleep.
fn price(load: &Snapshot) -> Duration {
    load.wake_up.min(LONGEST_WAKE_UP) * if load.loaded { WORTH_FULL } else { WORTH }
}

fn limit(load: &Snapshot) -> Duration {
    // On a full machine a waiter polls for a short time only, whatever the knob says of idle ones. (Not exactly the
    // price: history knows powers of two only.)
    let most = if load.loaded { price(load) * 3 / 2 } else { Duration::from_secs(4) };
    match load.limit {
        Limit::Auto if load.loaded => most,
        Limit::Auto => price(load),
        Limit::For(time) => time.min(most),
        Limit::Never => most,
    }
}

/// Why not to poll at all, whatever history says.
fn hopeless(request: &Request<'_>, load: &Snapshot) -> Option<Choice> {
    let waits = request.asker == Asker::Waiter;
    too_loaded(request, &Snapshot { loaded: load.loaded && !waits, ..*load })
}

fn spin(request: &Request<'_>, load: &Snapshot) -> Spin {
    let (price, limit) = (price(load), limit(load));
    let told = |time, why| Spin { time, expected: Duration::ZERO, why };
    match request.hint {
        Hint::Expected(time) if time >= price.min(limit) => {
            told(Duration::ZERO, "the library expects a long wait")
        }
        Hint::Expected(time) => told((2 * time).min(limit), "the library expects a short wait"),
        Hint::Long if request.history.is_empty() => {
            told(LONG_SPIN.min(limit), "no history, and the library expects a long wait")
        }
        Hint::Short | Hint::Long => request.history.best_spin(price, limit),
    }
}

impl Policy for Adaptive {
    fn name(&self) -> &str {
        "adaptive"
    }

    fn choose(&self, request: &Request<'_>, load: &Snapshot) -> Choice {
        match request.asker {
            Asker::Leaving => return leaving(load),
            Asker::Passing if spin(request, load).time.is_zero() => {
                return Choice::new(Method::Block, "looking has not paid");
            }
            Asker::Passing => return Choice::new(Method::Poll, "looking has paid"),
            Asker::Waiter | Asker::Idle => {}
        }
        if let Some(choice) = hopeless(request, load) {
            return choice;
        }
        if load.limit == Limit::Auto
            && let Some(choice) = in_vain(request)
        {
            return choice;
        }
        let spin = spin(request, load);
        if spin.time.is_zero()
            && request.asker == Asker::Waiter
            && !load.loaded
            && load.limit == Limit::Auto
            && !matches!(request.hint, Hint::Expected(_))
            && request.history.is_trial(request.waited.is_zero())
        {
            return poll_for(Some(price(load)), request.waited, "would the wait be shorter?");
        }
        poll_for(Some(spin.time), request.waited, spin.why)
    }

    fn completed(&self, request: &Request<'_>, load: &Snapshot) {
        // The account is of what this policy chose freely.
        if hopeless(request, load).is_none() && request.only.is_none() {
            let spin = spin(request, load).time;
            let polled = if request.history.is_trial(false) { price(load) } else { spin };
            request.history.settle(request.waited, polled, price(load));
        }
    }

    fn explain(&self, request: &Request<'_>, load: &Snapshot) -> String {
        let (price, limit, spin) = (price(load), limit(load), spin(request, load));
        let us = |time: Duration| format!("{:.1} µs", time.as_nanos() as f64 / 1000.0);
        let mut text = format!(
            "time to poll x = the one of least cost(x) = Σ_{{T ≤ x}} T + Σ_{{T > x}} (x + C), x ≤ {}\n\
             C = {} = {} × {}, the measured wake-up: {}\n",
            us(limit),
            us(price),
            if load.loaded { WORTH_FULL } else { WORTH },
            us(load.wake_up.min(LONGEST_WAKE_UP)),
            match load.loaded {
                true => "every core computes: the delay, and the work that a sleep is",
                false => "that much of an idle core is accepted for the delay",
            },
        );
        text += &format!(
            "T: {} waits so far, {} in the window:",
            request.history.ever(),
            request.history.len()
        );
        for (upper, count) in request.history.buckets() {
            text += &format!(" {count} < {}", us(upper));
        }
        text += &format!("\nx = {} ({})", us(spin.time), spin.why);
        if !spin.expected.is_zero() {
            text += &format!(", cost(x) = {} a wait, cost(0) = {}", us(spin.expected), us(price));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use marcel::Mode;

    use super::*;
    use crate::progress::policy::hints::Priority;
    use crate::progress::policy::history::History;

    fn choose(waits_us: u64, asker: Asker, loaded: bool, priority: Priority) -> Method {
        let history = History::default();
        (0..30).for_each(|_| history.note(Duration::from_micros(waits_us)));
        let load = Snapshot {
            mode: Mode::Smp,
            vps: 2,
            busy_vps: if loaded { 2 } else { 1 },
            loaded,
            runnable: false,
            limit: Limit::Auto,
            wake_up: Duration::from_micros(5),
            has_watcher: true,
            dedicated: 0,
        };
        let request = Request {
            source: "test",
            asker,
            hint: Hint::Short,
            only: None,
            priority,
            waited: Duration::ZERO,
            history: &history,
        };
        Adaptive.choose(&request, &load).method
    }

    #[test]
    fn a_full_machine_polls_only_for_what_comes_sooner_than_a_sleep_costs() {
        let full = |us| choose(us, Asker::Waiter, true, Priority::Normal);
        assert_eq!([3, 60, 100_000].map(full), [Method::Poll, Method::Block, Method::Block]);
        let free = |us| choose(us, Asker::Waiter, false, Priority::Normal);
        assert_eq!([3, 60, 100_000].map(free), [Method::Poll, Method::Poll, Method::Block]);
    }

    #[test]
    fn nobody_but_who_waits_polls_on_a_full_machine() {
        assert_eq!(choose(3, Asker::Idle, true, Priority::Normal), Method::Block);
        assert_eq!(choose(3, Asker::Idle, false, Priority::Normal), Method::Poll);
        assert_eq!(choose(3, Asker::Waiter, true, Priority::Low), Method::Block);
    }
}
