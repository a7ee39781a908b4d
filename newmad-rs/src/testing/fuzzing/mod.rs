//! Hostile input: one function for each place where bytes of others come in. cargo-fuzz runs them (`fuzz/`), and the
//! tests below over inputs made from seeds.
//!
//! A target takes any bytes. What they mean is up to it: mostly a list of choices, so that much of what is tried is
//! nearly right. It fails by a panic, by an access that a sanitizer sees, or by not ending.

mod parsers;
mod peer;
mod pmi;

use crate::connect::hostile;

/// Reads choices from a target's input. At its end everything is zero.
pub(crate) struct Input<'a>(&'a [u8]);

impl Input<'_> {
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.byte() as usize % bound.max(1)
    }

    pub(crate) fn word(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let taken = self.take(8);
        bytes[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(bytes)
    }

    pub(crate) fn take(&mut self, len: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A target.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("header", parsers::header),
    ("entries", parsers::entries),
    ("card", parsers::card),
    ("control", parsers::control),
    ("port", parsers::port),
    ("value", parsers::value),
    ("calls", parsers::calls),
    ("packed", parsers::packed),
    ("sampling_cache", parsers::sampling),
    ("pmi_answers", pmi::answers),
    ("verbs_words", verbs_words),
    ("verbs_channels", crate::net::verbs::hostile_channels),
    ("link_details", parsers::details),
    ("greeting", |input| hostile::greet(&mut Input(input))),
    ("control_ring", |input| hostile::ring(&mut Input(input))),
    ("control_network", |input| hostile::network(&mut Input(input))),
    ("peer_over_shm", peer::over_shm),
    ("peer_over_tcp", peer::over_tcp),
];

/// The words of flow control, and those that choose a virtual rail.
fn verbs_words(input: &[u8]) {
    crate::net::verbs::hostile_words(input);
    crate::gate::route::hostile(input);
}

/// Runs the target of that name.
///
/// # Panics
/// When there is none, and when it fails.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.unwrap_or_else(|| panic!("no target is called {name}"));
    target(input);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn input() -> impl Strategy<Value = Vec<u8>> {
        let most = prop_oneof![10usize..100, 100usize..600];
        let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
        let small = proptest::collection::vec(0u8..16, 0..400);
        prop_oneof![4 => most.prop_flat_map(bytes), 1 => small]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
        #[test]
        fn hostile_input_is_survived(input in input()) {
            for (name, target) in TARGETS {
                let input = input.clone();
                let survived = std::panic::catch_unwind(move || target(&input));
                prop_assert!(survived.is_ok(), "target {}", name);
            }
        }
    }
}
