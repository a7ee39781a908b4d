//! How quantities are written for people: one function for each kind. JSON objects keep plain numbers and the units of
//! their contract.

/// A plain figure, with as many digits as mean something.
pub fn figure(x: f64) -> String {
    match x.abs() {
        a if a >= 1000.0 => format!("{x:.0}"),
        a if a >= 100.0 => format!("{x:.1}"),
        a if a >= 10.0 => format!("{x:.2}"),
        a if (1e-9..0.1).contains(&a) => format!("{x:.*}", (2.0 - a.log10().floor()) as usize),
        _ => format!("{x:.3}"),
    }
}

/// Three digits, without zeros at the end: what one glance takes in.
pub fn brief(x: f64) -> String {
    let text = match x.abs() {
        0.0 => return "0".into(),
        a if a >= 100.0 => return format!("{x:.0}"),
        a => format!("{x:.*}", (2.0 - a.log10().floor()).clamp(0.0, 12.0) as usize),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A number of bytes. Units are powers of 1024, as in the options of the command. Below 10 KB every byte is shown.
pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let unit = UNITS.into_iter().find(|(unit, _)| bytes >= *unit);
    match unit {
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) if bytes >= 10 << 10 => {
            let text = format!("{:.1}", bytes as f64 / unit as f64);
            format!("{} {name}", text.trim_end_matches(".0"))
        }
        _ => format!("{bytes} B"),
    }
}

/// A time given in nanoseconds, in the unit that reads best.
pub fn time(ns: f64) -> String {
    match ns.abs() {
        0.0 => "0 ns".into(),
        a if a >= 999.5e6 => format!("{} s", brief(ns / 1e9)),
        a if a >= 999.5e3 => format!("{} ms", brief(ns / 1e6)),
        a if a >= 999.5 => format!("{} µs", brief(ns / 1e3)),
        _ => format!("{} ns", brief(ns)),
    }
}

/// A figure of a metric with its unit; a ratio has none.
pub fn measured(x: f64, unit: &str) -> String {
    match unit {
        "ns" => time(x),
        "us" => time(x * 1e3),
        "ms" => time(x * 1e6),
        "s" => time(x * 1e9),
        "bytes" if x >= 0.0 => size(x as u64),
        "MB/s" if x.abs() >= 999.5 => format!("{} GB/s", brief(x / 1e3)),
        "M/s" if x != 0.0 && x.abs() < 0.9995 => format!("{} k/s", brief(x * 1e3)),
        "k/s" if x.abs() >= 999.5 => format!("{} M/s", brief(x / 1e3)),
        "ratio" | "" | "1" => brief(x),
        unit => format!("{} {unit}", brief(x)),
    }
}

/// The unit of a metric at the head of a column.
pub fn unit(unit: &str) -> &str {
    match unit {
        "us" => "µs",
        unit => unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures_keep_the_digits_that_mean_something() {
        assert_eq!(
            [0.12345, 12.345, 123.45, 12345.6].map(figure),
            ["0.123", "12.35", "123.5", "12346"]
        );
        assert_eq!([0.012345, 0.00012345, 0.0].map(figure), ["0.0123", "0.000123", "0.000"]);
        assert_eq!(
            [0.0, 20.0, 0.1155, 99.96, 1234.5].map(brief),
            ["0", "20", "0.116", "100", "1234"]
        );
    }

    #[test]
    fn a_size_has_the_unit_that_it_fills() {
        let sizes = [0, 4, 1000, 1024, 2920, 48 << 10, 1280 << 10, 32 << 20, 1 << 30, 300_000];
        let words = [
            "0 B", "4 B", "1000 B", "1 KB", "2920 B", "48 KB", "1.2 MB", "32 MB", "1 GB", "293 KB",
        ];
        assert_eq!(sizes.map(size), words);
    }

    #[test]
    fn a_time_has_the_unit_that_reads_best() {
        let times = [0.0, 95.0, 116.4, 8344.0, 20_198_000.0, 1.5e9, 999.7, -125.5];
        let words = ["0 ns", "95 ns", "116 ns", "8.34 µs", "20.2 ms", "1.5 s", "1 µs", "-126 ns"];
        assert_eq!(times.map(time), words);
        assert_eq!(measured(20_000.0, "us"), "20 ms");
        assert_eq!(measured(13_875.0, "MB/s"), "13.9 GB/s");
        assert_eq!(measured(0.836, "M/s"), "836 k/s");
        assert_eq!(measured(0.983, "ratio"), "0.983");
    }

    proptest! {
        #[test]
        fn a_quantity_is_short_whatever_it_is(x in -1e15f64..1e15, bytes: u64) {
            for unit in ["ns", "us", "MB/s", "M/s", "k/s", "ratio", "bytes"] {
                let text = measured(x, unit);
                prop_assert!(text.len() < 28 && !text.contains("us"), "{text}");
            }
            prop_assert!(size(bytes).len() < 18, "{}", size(bytes));
        }
    }
}
