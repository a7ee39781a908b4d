//! The policy that learns: it polls for the time that has been cheapest ([`crate::policy::history`]), and judges the load
//! as `load-aware` does.
//!
//! The price of a sleep is not the wake-up alone. While a core is idle, polling takes nothing from anybody; what it costs
//! is power, and time of other processes that the manager cannot see. [`WORTH`] µs of it are accepted for each µs of a
//! wake-up that is saved (the *accepted overhead* of 5 % of the thesis, 5.3.2: 1/20). So `C` in the formula is
//! `WORTH` times the measured wake-up; as soon as every core computes, the time to poll is zero.

use std::time::Duration;

use crate::policy::hints::Hint;
use crate::policy::history::Spin;
use crate::policy::load_aware::{LONG_SPIN, poll_for, too_loaded};
use crate::policy::{Asker, Choice, Limit, Method, Policy, Request, Snapshot};

/// What a µs of delay is worth, in µs of an otherwise idle core.
const WORTH: u32 = 20;

/// See the module's description.
pub(crate) struct Adaptive;

/// The price of a sleep while a core is idle.
fn price(load: &Snapshot) -> Duration {
    load.wake_up * WORTH
}

fn limit(load: &Snapshot) -> Duration {
    match load.limit {
        Limit::Auto => price(load),
        Limit::For(time) => time,
        Limit::Never => Duration::from_secs(4),
    }
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
            Asker::Leaving => return Choice::new(Method::Block, "nobody else looks"),
            Asker::Passing if spin(request, load).time.is_zero() => {
                return Choice::new(Method::Block, "looking has not paid");
            }
            Asker::Passing => return Choice::new(Method::Poll, "looking has paid"),
            Asker::Waiter | Asker::Idle => {}
        }
        if let Some(choice) = too_loaded(request, load) {
            return choice;
        }
        let spin = spin(request, load);
        poll_for(Some(spin.time), request.waited, spin.why)
    }

    fn completed(&self, request: &Request<'_>, load: &Snapshot) {
        // The account is of what this policy chose freely.
        if too_loaded(request, load).is_none() && request.only.is_none() {
            let polled = spin(request, load).time;
            request.history.settle(request.waited, polled, price(load));
        }
    }

    fn explain(&self, request: &Request<'_>, load: &Snapshot) -> String {
        let (price, limit, spin) = (price(load), limit(load), spin(request, load));
        let us = |time: Duration| format!("{:.1} µs", time.as_nanos() as f64 / 1000.0);
        let mut text = format!(
            "time to poll x = the one of least cost(x) = Σ_{{T ≤ x}} T + Σ_{{T > x}} (x + C), x ≤ {}\n\
             C = {} = {WORTH} × {}, the measured wake-up: that much of an idle core is accepted for the delay\n",
            us(limit),
            us(price),
            us(load.wake_up),
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
