//! Names as numbers.
//!
//! [`intern`] is for names that a program makes up, where it makes the thing that has the name. [`intern_static`] is
//! for constants, anywhere: its table is an open hash of fixed size, whose words hold address and length at once, so
//! that filling a place is one compare-and-swap.

use crate::os::KernelMutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Set in the numbers of [`intern_static`].
const STATIC: u32 = 1 << 31;
/// More names than this are all called nothing: a program that makes them up would fill the memory.
const MOST: usize = 1 << 16;

#[derive(Default)]
struct Names {
    numbers: HashMap<Box<str>, u32>,
}

static NAMES: KernelMutex<Option<Names>> = KernelMutex::new(None);
static TABLE: Constants<512> = Constants::new();

struct Constants<const N: usize>([AtomicU64; N]);

/// A number for a name, the same for the same name; 0 when there are too many.
///
/// # Context
/// Not the progress path: it locks and allocates.
pub fn intern(name: &str) -> u32 {
    let mut names = NAMES.lock();
    let numbers = &mut names.get_or_insert_default().numbers;
    if let Some(number) = numbers.get(name) {
        return *number;
    }
    if numbers.len() >= MOST {
        return 0;
    }
    let number = numbers.len() as u32 + 2; // 0 and 1 mean other things
    numbers.insert(name.into(), number);
    number
}

/// As [`intern`], of a constant.
///
/// # Context
/// Anywhere, signal handlers included.
pub fn intern_static(name: &'static str) -> u32 {
    TABLE.number(name).map_or(0, |number| STATIC | number)
}

impl<const N: usize> Constants<N> {
    const fn new() -> Self {
        Constants([const { AtomicU64::new(0) }; N])
    }

    fn number(&self, name: &'static str) -> Option<u32> {
        let (address, len) = (name.as_ptr().expose_provenance() as u64, name.len() as u64);
        if address >> 48 != 0 || len >> 16 != 0 || len == 0 {
            return None;
        }
        let word = address | len << 48;
        let start = (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        (0..N).map(|step| (start + step) % N).find_map(|at| {
            let mut found = self.0[at].load(Acquire);
            if found == 0 {
                let filled = self.0[at].compare_exchange(0, word, AcqRel, Acquire);
                found = filled.map_or_else(|other| other, |_| word);
            }
            (found == word).then_some(at as u32)
        })
    }

    fn all(&self) -> impl Iterator<Item = (u32, String)> {
        let filled = self.0.iter().map(|word| word.load(Acquire)).enumerate();
        filled.filter(|(_, word)| *word != 0).map(|(at, word)| {
            let address: *const u8 =
                std::ptr::with_exposed_provenance((word & ((1 << 48) - 1)) as usize);
            // SAFETY: put there by `number`: a constant string.
            let bytes = unsafe { std::slice::from_raw_parts(address, (word >> 48) as usize) };
            (at as u32, String::from_utf8_lossy(bytes).into_owned())
        })
    }
}

/// All of them, with their numbers.
pub(crate) fn all() -> Vec<(u32, String)> {
    let names = NAMES.lock();
    let made = names.iter().flat_map(|names| names.numbers.iter());
    let mut all: Vec<_> = made.map(|(name, number)| (*number, name.to_string())).collect();
    all.extend(TABLE.all().map(|(number, name)| (STATIC | number, name)));
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_has_the_same_number() {
        let one = intern("names test one");
        assert_eq!(intern("names test one"), one);
        assert_ne!(intern("names test two"), one);
        let (a, b) = (intern_static("names test a"), intern_static("names test b"));
        assert!(a != b && a & STATIC != 0 && a == intern_static("names test a"));
        let all = all();
        for (number, name) in [(one, "names test one"), (a, "names test a"), (b, "names test b")] {
            assert!(all.contains(&(number, name.into())), "{name}");
        }
    }

    #[test]
    fn a_full_table_of_constants_gives_nothing() {
        let table = Constants::<8>::new();
        let text = "123456789";
        for len in 1..=8 {
            assert!(table.number(&text[..len]).is_some());
        }
        assert_eq!(table.number(text), None);
        assert!(table.number(&text[..3]).is_some());
        assert_eq!(table.all().count(), 8);
        assert!(table.all().any(|(_, name)| name == "1234"));
    }
}
