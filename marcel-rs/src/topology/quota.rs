//! The CPU quota of this process's cgroup, in both versions of cgroups.

use std::fs;
use std::path::Path;

/// The number of CPUs whose time the cgroup's quota allows; `None` without a quota.
///
/// Reads both versions of cgroups. The tightest quota on the way to the root counts.
pub fn cgroup_quota() -> Option<f64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    quota_below(Path::new("/sys/fs/cgroup"), &own)
}

fn quota_below(mount: &Path, own: &str) -> Option<f64> {
    let mut tightest: Option<f64> = None;
    let mut note = |quota: Option<f64>| {
        if let Some(q) = quota {
            tightest = Some(tightest.map_or(q, |t| t.min(q)));
        }
    };
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let v2 = controllers.is_empty();
        let roots: &[&str] = if v2 {
            &[""]
        } else if controllers.split(',').any(|c| c == "cpu") {
            &["cpu,cpuacct", "cpu"]
        } else {
            continue;
        };
        for root in roots {
            let base = mount.join(root);
            let mut dir = base.join(path.trim_start_matches('/'));
            loop {
                note(if v2 { quota_v2(&dir) } else { quota_v1(&dir) });
                if dir == base || !dir.pop() {
                    break;
                }
            }
        }
    }
    tightest
}

fn quota_v2(dir: &Path) -> Option<f64> {
    let text = fs::read_to_string(dir.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    ratio(words.next()?, words.next()?)
}

fn quota_v1(dir: &Path) -> Option<f64> {
    let read = |name| fs::read_to_string(dir.join(name)).ok();
    ratio(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
}

/// `quota / period`; `None` for "max", -1 and nonsense.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_both_versions_are_read_and_the_tightest_wins() {
        let dir = std::env::temp_dir().join(format!("marcel-cgroup-{}", std::process::id()));
        let leaf = dir.join("a/b");
        fs::create_dir_all(&leaf).unwrap();
        fs::create_dir_all(dir.join("cpu/x")).unwrap();
        fs::write(dir.join("a/cpu.max"), "150000 100000\n").unwrap();
        fs::write(leaf.join("cpu.max"), "max 100000\n").unwrap();
        fs::write(dir.join("cpu/x/cpu.cfs_quota_us"), "50000\n").unwrap();
        fs::write(dir.join("cpu/x/cpu.cfs_period_us"), "100000\n").unwrap();
        assert_eq!(quota_below(&dir, "0::/a/b\n"), Some(1.5));
        assert_eq!(quota_below(&dir, "0::/\n"), None);
        assert_eq!(quota_below(&dir, "4:cpu,cpuacct:/x\n0::/a\n"), Some(0.5));
        fs::remove_dir_all(&dir).unwrap();
    }
}
