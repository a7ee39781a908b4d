//! The keys of configurations: what each accepts on the command line, and the grid of all combinations.

use marcel::topology::vp_count;
use serde_json::Value;

use crate::config::{Config, distinct};
use crate::harness::libraries;
use crate::quantity;

/// What a key accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Takes {
    /// One of these words.
    Words(&'static [&'static str]),
    /// One of these words, or an MPI library.
    Libraries(&'static [&'static str]),
    /// An integer between the two bounds, both included.
    Int(u64, u64),
    /// An integer between the two bounds, or `Nx`: N times the cores that may be used.
    Cores(u64, u64),
    /// A number of bytes up to the bound; `K`, `M`, `G` are powers of 1024.
    Bytes(u64),
}

/// One key of a bench's configuration, and the option of the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Its name in `config`; the option is the same with `-` for `_`.
    pub(crate) name: &'static str,
    /// What it accepts.
    pub(crate) takes: Takes,
    /// Values when the option is not given.
    pub(crate) default: &'static str,
    /// What it means, for `--list`.
    pub(crate) help: &'static str,
}

/// The value that leaves a knob as it is.
pub(crate) const AUTO: &str = "auto";
/// The same, where there is nothing to choose.
pub(crate) const NONE: &str = "none";

/// Drivers between processes.
pub(crate) const DRIVER: Key = Key {
    name: "driver",
    takes: Takes::Words(&["shm", "tcp"]),
    default: "shm,tcp",
    help: "driver between the processes",
};
/// Modes of the thread runtime.
pub(crate) const MODE: Key = Key {
    name: "mode",
    takes: Takes::Words(&["no-thread", "mono", "smp"]),
    default: "smp",
    help: "mode of the thread runtime",
};
/// Policy that chooses the method of detection.
pub(crate) const POLICY: Key = Key {
    name: "policy",
    takes: Takes::Words(&[
        AUTO,
        "always-poll",
        "always-block",
        "timer-only",
        "dedicated",
        "interrupt",
        "load-aware",
        "adaptive",
    ]),
    default: AUTO,
    help: "policy of detection; auto: what PIOM_POLICY or its default says",
};
/// Whether requests progress outside calls.
pub(crate) const PROGRESSION: Key = Key {
    name: "progression",
    takes: Takes::Int(0, 1),
    default: "1",
    help: "0: requests progress only inside calls",
};
/// The library that carries the messages.
pub(crate) const LIBRARY: Key = Key {
    name: "library",
    takes: Takes::Libraries(&["newmad"]),
    default: "newmad,openmpi,mpich,openmpi5,openmpi5-ucx,mpich5,impi",
    help: "the library that carries the messages; newer MPI libraries are looked for in --peers-dir",
};
/// How the engine of a session is locked.
pub(crate) const LOCK: Key = Key {
    name: "lock",
    takes: Takes::Words(&[AUTO, "none", "coarse", "fine"]),
    default: AUTO,
    help: "how the session's engine is locked; auto: what NMAD_LOCK or its default says",
};
/// Size of a message.
pub(crate) const SIZE: Key = Key {
    name: "size",
    takes: Takes::Bytes(1 << 30),
    default: "4,64K,1M,4M",
    help: "bytes of a message",
};

impl Key {
    /// The option's name.
    pub(crate) fn option(&self) -> String {
        self.name.replace('_', "-")
    }

    /// What it accepts, in words.
    pub(crate) fn accepts(&self) -> String {
        match self.takes {
            Takes::Words(words) => words.join("|"),
            Takes::Libraries(words) => {
                let names = libraries::KNOWN.iter().map(|known| known.name);
                words.iter().copied().chain(names).collect::<Vec<_>>().join("|")
            }
            Takes::Int(low, high) => format!("an integer from {low} to {high}"),
            Takes::Cores(low, high) => {
                format!("an integer from {low} to {high}, or Nx: N times the cores")
            }
            Takes::Bytes(most) => {
                format!(
                    "a number of bytes up to {} (K, M and G are understood)",
                    quantity::size(most)
                )
            }
        }
    }

    /// Parses a comma-separated list; a value that is there twice is taken once.
    ///
    /// # Errors
    /// A sentence that names the option, the value and what would be accepted.
    pub(crate) fn parse(&self, list: &str) -> Result<Vec<Value>, String> {
        let value = |word| {
            self.value(word).ok_or_else(|| {
                let (option, accepts) = (self.option(), self.accepts());
                format!("invalid value '{word}' for '--{option}': it takes {accepts}")
            })
        };
        list.split(',').map(str::trim).map(value).collect::<Result<Vec<_>, _>>().map(distinct)
    }

    /// Whether a point may have this value as it is, without a word that stands for it.
    pub(crate) fn admits(&self, value: &Value) -> bool {
        match (self.bounds(), value) {
            (Some((low, high)), number) => {
                number.as_u64().is_some_and(|number| (low..=high).contains(&number))
            }
            (None, Value::String(word)) => self.value(word).is_some(),
            (None, _) => false,
        }
    }

    /// A value that a point may have: this one, the bound beyond which this number is, or else the first default.
    pub(crate) fn nearest(&self, value: &Value) -> Option<Value> {
        if self.admits(value) {
            return Some(value.clone());
        }
        match self.bounds().zip(value.as_u64()) {
            Some(((low, high), number)) => Some(number.clamp(low, high).into()),
            None => self.parse(self.default).ok()?.into_iter().next(),
        }
    }

    /// The least and the greatest number, of a key that takes numbers.
    fn bounds(&self) -> Option<(u64, u64)> {
        match self.takes {
            Takes::Words(_) | Takes::Libraries(_) => None,
            Takes::Int(low, high) | Takes::Cores(low, high) => Some((low, high)),
            Takes::Bytes(most) => Some((1, most)),
        }
    }

    fn value(&self, word: &str) -> Option<Value> {
        match self.takes {
            Takes::Words(words) => words.contains(&word).then(|| word.into()),
            Takes::Libraries(words) => {
                (words.contains(&word) || libraries::find(word).is_some()).then(|| word.into())
            }
            Takes::Int(low, high) => {
                number(word).filter(|n| (low..=high).contains(n)).map(Value::from)
            }
            Takes::Cores(low, high) => {
                let count = match word.strip_suffix('x') {
                    Some(times) => number(times)?.checked_mul(vp_count() as u64)?,
                    None => number(word)?,
                };
                (low..=high).contains(&count).then(|| count.into())
            }
            Takes::Bytes(most) => {
                let (digits, unit) = match word.char_indices().next_back()? {
                    (at, 'k' | 'K') => (&word[..at], 1 << 10),
                    (at, 'm' | 'M') => (&word[..at], 1 << 20),
                    (at, 'g' | 'G') => (&word[..at], 1 << 30),
                    _ => (word, 1),
                };
                let bytes = number(digits)?.checked_mul(unit)?;
                (1..=most).contains(&bytes).then(|| bytes.into())
            }
        }
    }
}

/// Digits only: no sign, no space.
fn number(word: &str) -> Option<u64> {
    word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok()).flatten()
}

/// All combinations of the keys' values, the last key changing fastest.
///
/// # Errors
/// When a value is not acceptable, or an option is given that the bench does not have.
pub(crate) fn grid(
    bench: &str,
    keys: &[Key],
    given: &[(&str, &str)],
) -> Result<Vec<Config>, String> {
    for (option, _) in given {
        if !keys.iter().any(|key| key.option() == *option) {
            let known: Vec<String> = keys.iter().map(|key| format!("--{}", key.option())).collect();
            return Err(format!(
                "bench {bench} has no option '--{option}': it has {}",
                known.join(", ")
            ));
        }
    }
    let mut grid = vec![Config::default()];
    for key in keys {
        let option = key.option();
        let list =
            given.iter().find(|(name, _)| *name == option).map_or(key.default, |(_, list)| list);
        let values = key.parse(list)?;
        grid = grid
            .iter()
            .flat_map(|config| values.iter().map(move |value| config.with(key.name, value.clone())))
            .collect();
    }
    Ok(grid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_make_all_combinations() {
        let keys = [DRIVER, SIZE];
        let grid = grid("b", &keys, &[("size", "4,1K,4"), ("driver", "tcp,shm")]).unwrap();
        let shown: Vec<_> = grid.iter().map(|c| (c.text("driver"), c.number("size"))).collect();
        assert_eq!(shown, [("tcp", 4), ("tcp", 1024), ("shm", 4), ("shm", 1024)]);
    }

    #[test]
    fn wrong_values_and_options_are_named() {
        let error = grid("b", &[SIZE], &[("size", "4,huge")]).unwrap_err();
        assert!(error.contains("huge") && error.contains("--size"), "{error}");
        let error = grid("b", &[SIZE], &[("threads", "1")]).unwrap_err();
        assert!(error.contains("--threads") && error.contains("--size"), "{error}");
        for wrong in ["", "0", "-1", "1.5", "2G", "99999999999999999999", "K", "1é"] {
            assert!(SIZE.parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn cores_are_counted() {
        let key = Key { takes: Takes::Cores(0, 100_000), ..SIZE };
        let cores = vp_count() as u64;
        assert_eq!(key.parse("3,0x,2x").unwrap(), [3, 0, 2 * cores].map(Value::from));
        for wrong in ["x", "-1x", "99999999999999999999x", "100001", "1.5x"] {
            assert!(key.parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_policy_can_be_asked_for() {
        for name in pioman::policy::NAMES {
            assert_eq!(POLICY.parse(name).unwrap(), [Value::from(name)]);
        }
    }

    #[test]
    fn defaults_are_acceptable() {
        for key in [DRIVER, MODE, POLICY, PROGRESSION, LIBRARY, LOCK, SIZE] {
            key.parse(key.default).unwrap();
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_typed_panics(text in ".*") {
            for key in [DRIVER, SIZE, PROGRESSION, Key { takes: Takes::Cores(0, 9), ..SIZE }] {
                let _ = key.parse(&text);
            }
        }
    }
}
