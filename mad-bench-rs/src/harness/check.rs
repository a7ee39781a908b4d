//! Checks what a worker is told to measure, before it measures anything.
//!
//! A point that `mad bench` makes has every key of its bench, with a value that the key takes or that the bench has put
//! in its place (`points`: a reference point of size 0, `none` for what an MPI library does not have). The experiments
//! rely on that. A specification that was written by hand may say anything.

use crate::config::Config;
use crate::harness::experiment::Bench;
use crate::harness::worker::{MOST_ITERS, Spec};

/// Whether `mad bench` could have made the specification.
///
/// # Errors
/// A sentence that names what is wrong and what would be accepted.
pub(crate) fn check(bench: &Bench, spec: &Spec) -> Result<(), String> {
    if !(1..=MOST_ITERS).contains(&spec.iters) {
        return Err(format!("iters is {}: it takes a number from 1 to {MOST_ITERS}", spec.iters));
    }
    let Some((_, first)) = spec.points.first() else { return Err("it has no point".into()) };
    for (number, point) in &spec.points {
        check_point(bench, point).map_err(|why| format!("point {number} {why}"))?;
        if bench.ranks_of(point) != bench.ranks_of(first) {
            return Err(format!("point {number} takes another number of processes than the first"));
        }
    }
    Ok(())
}

fn check_point(bench: &Bench, point: &Config) -> Result<(), String> {
    let has = |name: &str| bench.keys.iter().any(|key| key.name == name);
    if let Some((unknown, _)) = point.iter().find(|(name, _)| !has(name)) {
        let known: Vec<&str> = bench.keys.iter().map(|key| key.name).collect();
        let known = known.join(", ");
        return Err(format!("has the key {unknown:?}: bench {} has {known}", bench.name));
    }
    let (mut asked, mut replaced) = (Config::default(), None);
    for key in bench.keys {
        let (name, accepts) = (key.name, key.accepts());
        let value = point.get(name).ok_or_else(|| format!("has no {name:?}: it is {accepts}"))?;
        let refused = format!("has {value} for {name:?}: it takes {accepts}");
        let nearest = key.nearest(value).ok_or_else(|| refused.clone())?;
        if nearest != *value {
            replaced.get_or_insert(refused);
        }
        asked.set(name, nearest);
    }
    match replaced {
        Some(refused) if !(bench.points)(vec![asked]).iter().any(|made| made.same(point)) => {
            Err(refused)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::experiments::{BENCHES, find};
    use crate::harness::key::{Takes, grid};
    use crate::harness::libraries;

    fn spec(bench: &Bench, points: Vec<Config>) -> Spec {
        let points = points.into_iter().enumerate().collect();
        Spec { bench: bench.name.into(), points, iters: 1, peers_dir: None }
    }

    /// The points of a bench with each of its words once, and the bounds of its numbers.
    fn all_points(bench: &Bench) -> Vec<Config> {
        let mut all = (bench.points)(grid(bench.name, bench.keys, &[]).unwrap());
        for key in bench.keys {
            let list = match key.takes {
                Takes::Words(words) => words.join(","),
                Takes::Libraries(words) => {
                    let known = libraries::KNOWN.iter().map(|known| known.name);
                    words.iter().copied().chain(known).collect::<Vec<_>>().join(",")
                }
                Takes::Int(low, high) | Takes::Cores(low, high) => format!("{low},{high}"),
                Takes::Bytes(most) => format!("1,3000,{most}"),
            };
            let option = key.option();
            let given = [(option.as_str(), list.as_str())];
            all.extend((bench.points)(grid(bench.name, bench.keys, &given).unwrap()));
        }
        all
    }

    #[test]
    fn every_point_that_a_bench_makes_passes() {
        for bench in BENCHES {
            for point in all_points(bench) {
                let checked = check(bench, &spec(bench, vec![point.clone()]));
                assert_eq!(checked, Ok(()), "{}: {point:?}", bench.name);
            }
        }
    }

    #[test]
    fn a_size_that_a_bench_has_rounded_up_beyond_the_bound_passes() {
        let files = find("files").unwrap();
        let given = [("size", "1G"), ("piece", "3000"), ("layout", "blocks")];
        let points = (files.points)(grid("files", files.keys, &given).unwrap());
        assert!(points.iter().all(|point| point.number("size") > 1 << 30), "{points:?}");
        assert_eq!(check(files, &spec(files, points)), Ok(()));
    }

    #[test]
    fn a_point_that_no_bench_makes_is_refused_by_name() {
        let latency = find("latency").unwrap();
        let good = (latency.points)(grid("latency", latency.keys, &[]).unwrap()).swap_remove(0);
        let refused = |points| check(latency, &spec(latency, points)).unwrap_err();
        assert_eq!(refused(Vec::new()), "it has no point");
        let cases = [
            (good.only(|key| key != "size"), "no \"size\""),
            (good.with("size", 0), "0 for \"size\""),
            (good.with("size", "4"), "\"4\" for \"size\""),
            (good.with("size", json!([4])), "[4] for \"size\""),
            (good.with("size", Value::Null), "null for \"size\""),
            (good.with("mode", "none"), "no-thread|mono|smp"),
            (good.with("sise", 4), "\"sise\""),
        ];
        for (point, why) in cases {
            let said = refused(vec![good.clone(), point]);
            assert!(said.starts_with("point 1 has ") && said.contains(why), "{said}");
        }
        let iters = check(latency, &Spec { iters: u64::MAX, ..spec(latency, vec![good]) });
        assert!(iters.unwrap_err().contains("100000000"));
    }

    #[test]
    fn points_of_one_process_agree_on_how_many_there_are() {
        let apps = find("apps").unwrap();
        let points = grid("apps", apps.keys, &[("ranks", "2,3"), ("workload", "halo")]).unwrap();
        assert!(check(apps, &spec(apps, points)).unwrap_err().contains("point 1 takes another"));
    }

    fn anything() -> impl Strategy<Value = Value> {
        let number = prop_oneof![Just(0), Just(1), Just(u64::MAX), any::<u64>()];
        prop_oneof![
            number.prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            prop_oneof![Just("none"), Just("auto"), Just("halo"), Just("")].prop_map(Value::from),
            Just(Value::Null),
            Just(json!({})),
        ]
    }

    proptest! {
        /// And an accepted point has a number wherever the bench reads one: `points` reads what it needs.
        #[test]
        fn no_value_makes_the_check_panic(
            at in any::<proptest::sample::Index>(),
            values in proptest::collection::vec((any::<proptest::sample::Index>(), anything()), 0..3),
        ) {
            let bench = BENCHES[at.index(BENCHES.len())];
            let made = (bench.points)(grid(bench.name, bench.keys, &[]).unwrap());
            let mut point = made[0].clone();
            for (key, value) in values {
                point.set(bench.keys[key.index(bench.keys.len())].name, value);
            }
            if check(bench, &spec(bench, vec![point.clone()])).is_ok() {
                let _ = (bench.points)(vec![point.clone()]);
                let _ = bench.mpi.map(|with| with(&point));
            }
        }
    }
}
