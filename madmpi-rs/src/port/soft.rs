//! The hint `soft`: which numbers of processes will do, as a set.

/// The largest number of the set that is not above `most`; `None`: it has none, or is not a set.
pub(crate) fn largest(set: &str, most: u32) -> Option<u32> {
    let ranges = set.split(',').map(|range| {
        let mut numbers = range.split(':').map(|number| number.trim().parse::<i64>().ok());
        let first = numbers.next()??;
        let last = numbers.next().unwrap_or(Some(first))?;
        let step = numbers.next().unwrap_or(Some(1))?;
        (numbers.next().is_none() && step != 0).then_some((first, last, step))
    });
    let most = i64::from(most);
    let best = |(first, last, step): (i64, i64, i64)| {
        // Ascending.
        let step_len = step.checked_abs()?;
        let (low, high) = match step > 0 {
            true => (first, last),
            false => {
                let steps = first.checked_sub(last)?.max(-1).div_euclid(step_len);
                (first.checked_sub(steps.checked_mul(step_len)?)?, first)
            }
        };
        let high = high.min(most);
        (low <= high).then(|| high - high.checked_sub(low).map_or(0, |gap| gap % step_len))
    };
    let all = ranges.collect::<Option<Vec<_>>>()?;
    let found = all.into_iter().filter_map(best).max()?;
    u32::try_from(found).ok().filter(|&found| found > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_largest_that_will_do_is_found(ranges in proptest::collection::vec((-3..20i64, -3..20i64, prop_oneof![-4..0i64, 1..5i64]), 1..4), most in 1..20u32) {
            let text: Vec<String> = ranges.iter().map(|(first, last, step)| format!("{first}:{last}:{step}")).collect();
            let mut all = std::collections::BTreeSet::new();
            for (first, last, step) in ranges {
                let mut at = first;
                while if step > 0 { at <= last } else { at >= last } {
                    all.insert(at);
                    at += step;
                }
            }
            let best = all.into_iter().filter(|&number| number <= i64::from(most)).max().filter(|&best| best > 0);
            prop_assert_eq!(largest(&text.join(","), most), best.map(|best| best as u32));
        }

        #[test]
        fn hostile_sets_are_survived(set in "[0-9:, -]{0,40}|\\PC{0,9}", most in 1..9u32) {
            let found = largest(&set, most);
            prop_assert!(found.is_none_or(|found| (1..=most).contains(&found)));
        }
    }

    #[test]
    fn the_standards_examples_hold() {
        assert_eq!(largest("2", 4), Some(2));
        assert_eq!(largest("1:4", 3), Some(3));
        assert_eq!(largest("0:100:2,3", 5), Some(4));
        assert_eq!(largest("8", 4), None);
        assert_eq!(largest("", 4), None);
    }
}
