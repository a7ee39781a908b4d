//! What holds for the JSON lines of every bench.

#![allow(unreachable_pub)]

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::{err, out, run};

/// Runs a bench with `--json` and gives its objects, after checking what holds for every one.
pub fn bench(name: &str, options: &[&str]) -> Vec<Value> {
    let mut args = vec!["bench", name, "--json", "--timeout", "600"];
    args.extend(options);
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
    assert!(!err(&output).contains("unknown metric"), "{args:?}: {}", err(&output));
    let mut objects = Vec::new();
    for line in out(&output).lines() {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let keys: BTreeSet<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = BTreeSet::from([
            "bench", "config", "metric", "unit", "n", "mean", "min", "p10", "median", "p90", "p99",
            "max", "ci_low", "ci_high",
        ]);
        assert_eq!(keys, expected, "{line}");
        assert_eq!(object["bench"], name, "{line}");
        let figures: Vec<f64> = ["min", "p10", "median", "p90", "p99", "max"]
            .map(|key| object[key].as_f64().unwrap_or_else(|| panic!("{key}: {line}")))
            .to_vec();
        assert!(figures.windows(2).all(|pair| pair[0] <= pair[1]), "{line}");
        let interval: Vec<f64> = ["ci_low", "median", "ci_high"]
            .map(|key| object[key].as_f64().unwrap_or_else(|| panic!("{key}: {line}")))
            .to_vec();
        assert!(interval.windows(2).all(|pair| pair[0] <= pair[1]), "{line}");
        assert!(object["n"].as_u64().unwrap() > 0 && object["mean"].is_f64(), "{line}");
        objects.push(object);
    }
    assert!(!objects.is_empty());
    objects
}
