//! How results are shown to people.

use crate::config::{Config, for_people};
use crate::harness::experiment::Bench;
use crate::harness::line::Line;
use crate::out;
use crate::quantity::{self, figure};

/// What the figures were taken on: they mean nothing without it.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let kernel = read("/proc/sys/kernel/osrelease");
    let build = if cfg!(debug_assertions) {
        "DEBUG BUILD: these figures say nothing, use cargo run --release"
    } else {
        "release build"
    };
    format!(
        "{model}, {} of its cores, Linux {}, {build}",
        marcel::topology::allowed_cpus().len(),
        kernel.trim(),
    )
}

/// CPU time of the machine, in clock ticks: what all processes used, what the host took away, and how much
/// there was.
#[derive(Clone, Copy, Default)]
struct Ticks {
    busy: f64,
    stolen: f64,
    all: f64,
}

impl Ticks {
    fn read() -> Ticks {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Ticks::parse(&text).unwrap_or_default()
    }

    /// The line `cpu user nice system idle iowait irq softirq steal …`.
    fn parse(text: &str) -> Option<Ticks> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<f64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, wait, irq, soft, steal] = *fields.get(..8)? else {
            return None;
        };
        let busy = user + nice + system + irq + soft;
        Some(Ticks { busy, stolen: steal, all: busy + idle + wait + steal })
    }
}

/// Watches what else the machine does during a run: figures of a busy machine are to be read with care.
pub(crate) struct Noise {
    ticks: Ticks,
    own_s: f64,
    /// Which machine, and whose processes are among the others, if that has to be said.
    which: &'static str,
}

impl Noise {
    /// From now on.
    pub(crate) fn start(which: &'static str) -> Noise {
        Noise { ticks: Ticks::read(), own_s: Noise::own_s(), which }
    }

    /// What was seen, in words.
    pub(crate) fn words(&self) -> String {
        let now = Ticks::read();
        // SAFETY: takes no pointers.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
        let all = (now.all - self.ticks.all).max(1.0);
        let own = (Noise::own_s() - self.own_s) * per_second;
        let part = |ticks: f64| (100.0 * ticks / all).clamp(0.0, 100.0);
        format!(
            "meanwhile other processes{} used {:.0} % of the machine, its host took {:.0} %",
            self.which,
            part(now.busy - self.ticks.busy - own),
            part(now.stolen - self.ticks.stolen),
        )
    }

    /// CPU seconds of this process and of the workers that have ended.
    fn own_s() -> f64 {
        [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
            .into_iter()
            .map(|processes| {
                let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
                // SAFETY: `usage` is writable; zeroed is a valid value.
                let usage = unsafe {
                    libc::getrusage(processes, usage.as_mut_ptr());
                    usage.assume_init()
                };
                let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
                seconds(usage.ru_utime) + seconds(usage.ru_stime)
            })
            .sum()
    }
}

/// The table of a bench: one row per point and metric. Keys that are the same everywhere go above it.
pub(crate) fn table(bench: &Bench, points: &[Config], measured: &[Line], noise: &Noise) -> String {
    let same = |key: &str| {
        let mut values = points.iter().map(|point| point.get(key));
        let first = values.next().flatten();
        values.all(|value| value == first)
    };
    let common: Vec<String> = points.first().map_or(Vec::new(), |point| {
        point
            .iter()
            .filter(|(key, _)| same(key))
            .map(|(key, value)| format!("{key} {}", for_people(key, value)))
            .collect()
    });
    let varying: Vec<&str> = points.first().map_or(Vec::new(), |point| {
        point.iter().map(|(key, _)| key).filter(|key| !same(key)).collect()
    });
    let mut header = varying.clone();
    header.extend(["metric", "unit", "n", "min", "median", "p90", "p99", "max", "mean"]);
    header.extend(bench.apart.map(|apart| apart.column));
    let mut table = out::table(&header);
    // Figures broken over two lines cannot be read: rather wider than the terminal.
    table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    let mut before = String::new();
    let mut noisy = false;
    for (index, line) in measured.iter().enumerate() {
        let shown =
            |key: &&str| line.config.get(key).map_or(String::new(), |value| for_people(key, value));
        let keys: Vec<String> = varying.iter().map(shown).collect();
        let key = keys.join(" ");
        let keys_and_names = keys.len() + 2;
        let mut row = if key == before { vec![String::new(); keys.len()] } else { keys };
        before = key;
        row.extend([
            line.metric.clone(),
            quantity::unit(&line.unit).to_owned(),
            line.n.to_string(),
        ]);
        let Line { min, median, p90, p99, max, mean, .. } = *line;
        row.extend([min, median, p90, p99, max, mean].map(figure));
        if line.is_wide() {
            noisy = true;
            row[keys_and_names + 2] = format!("~{}", figure(median));
        }
        let ratio = bench.apart.map(|apart| (apart.ratio)(measured, index));
        row.extend(ratio.map(|x| x.map_or(String::new(), |x| format!("{x:.2}"))));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(varying.len() + 2) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    let mut text = format!("{}: {}\n", bench.name, bench.about);
    if !common.is_empty() {
        text.push_str(&format!("{}\n", common.join(", ")));
    }
    let summary = bench.summary.map_or(String::new(), |summary| summary(measured));
    let wide = match noisy {
        true => {
            "~: the rounds disagree by more than a fifth, so another run may well give another median\n"
        }
        false => "",
    };
    format!("{text}{}; {}\n{}\n{wide}{summary}", machine(), noise.words(), table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_understood() {
        let ticks = Ticks::parse("cpu  10 1 5 100 4 2 3 7 0 0\ncpu0 1 2\n").unwrap();
        assert_eq!((ticks.busy, ticks.stolen, ticks.all), (21.0, 7.0, 132.0));
        assert!(Ticks::parse("cpu 1 2").is_none() && Ticks::parse("").is_none());
    }
}
