//! The policies that come with this crate, by name.

use std::sync::Arc;

use crate::progress::policy::adaptive::Adaptive;
use crate::progress::policy::contract::Policy;
use crate::progress::policy::fixed::{Always, AlwaysPoll, Dedicated, Interrupts};
use crate::progress::policy::hints::Method;
use crate::progress::policy::load_aware::LoadAware;

/// Names of the policies that come with this crate.
pub const NAMES: [&str; 7] = [
    "always-poll",
    "always-block",
    "timer-only",
    "dedicated",
    "interrupt",
    "load-aware",
    "adaptive",
];

/// The policy of this name ([`NAMES`]).
pub fn by_name(name: &str) -> Option<Arc<dyn Policy>> {
    Some(match name {
        "always-poll" => Arc::new(AlwaysPoll),
        "always-block" => Arc::new(Always { name: "always-block", method: Method::Block }),
        "timer-only" => Arc::new(Always { name: "timer-only", method: Method::Tick }),
        "dedicated" => Arc::new(Dedicated),
        "interrupt" => Arc::new(Interrupts),
        "load-aware" => Arc::new(LoadAware),
        "adaptive" => Arc::new(Adaptive),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_policy_of_that_name() {
        for name in NAMES {
            assert_eq!(by_name(name).unwrap().name(), name);
        }
        assert!(by_name("auto").is_none());
    }
}
