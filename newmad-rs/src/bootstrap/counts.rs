//! How many ranks each process holds, where they hold several.
//!
//! Each process puts its number. Process 0 gets all of them, and puts them as one text, which the others get: so a
//! session of n processes costs 2n look-ups, and not n².

use std::time::Instant;

use super::manager::Bootstrap;
use crate::error::Error;

const OWN: &str = "newmad-count";
const ALL: &str = "newmad-counts";

/// The numbers of ranks of all processes; this one holds `own`.
///
/// # Errors
/// A process does not come, or opens for one rank only.
pub(crate) fn counts(
    boot: &mut dyn Bootstrap,
    own: u32,
    deadline: Instant,
) -> Result<Vec<u32>, Error> {
    let size = boot.size();
    if size == 1 {
        return Ok(vec![own]);
    }
    boot.put_text(OWN, &own.to_string(), deadline)?;
    boot.fence(deadline)?;
    if boot.rank() == 0 {
        let mut all = Vec::new();
        for process in 0..size {
            let count = boot.text_of(OWN, process, deadline)?;
            all.push(count.parse().map_err(|_| unsound(process, &count))?);
        }
        boot.put_text(ALL, &encode(&all), deadline)?;
    }
    boot.fence(deadline)?;
    let text = boot.text_of(ALL, 0, deadline)?;
    decode(&text, size).ok_or_else(|| unsound(0, &text))
}

/// Equal neighbours together: `32x2,5`.
fn encode(counts: &[u32]) -> String {
    let runs = counts.chunk_by(|one, next| one == next);
    let runs = runs.map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}x{}", run[0], run.len()),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// What was encoded, for so many processes.
fn decode(text: &str, size: u32) -> Option<Vec<u32>> {
    let mut counts = Vec::new();
    for run in text.split(',') {
        let (count, times) = run.split_once('x').unwrap_or((run, "1"));
        let (count, times): (u32, usize) = (count.parse().ok()?, times.parse().ok()?);
        if times > size as usize - counts.len() {
            return None;
        }
        counts.extend(std::iter::repeat_n(count, times));
    }
    (counts.len() == size as usize).then_some(counts)
}

fn unsound(process: u32, text: &str) -> Error {
    Error::Bootstrap(format!("process {process} tells no number of ranks, but {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(counts in proptest::collection::vec(1u32..4, 1..40)) {
            prop_assert_eq!(decode(&encode(&counts), counts.len() as u32), Some(counts));
        }

        #[test]
        fn hostile_texts_are_refused_or_fit(text in "[0-9x,]{0,20}", size in 1u32..50) {
            let counts = decode(&text, size);
            prop_assert!(counts.is_none_or(|counts| counts.len() == size as usize));
        }
    }

    #[test]
    fn equal_neighbours_are_one_word() {
        assert_eq!(encode(&[32, 32, 5]), "32x2,5");
        assert_eq!(decode("32x9999999999", 2), None);
        assert_eq!(decode("1,1x18446744073709551615", 2), None);
    }
}
