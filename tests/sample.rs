//! `mad sample`, and sessions that read what it has written.

mod common;

use common::{err, example, mad, out};

#[test]
fn what_is_sampled_is_printed_written_and_read_by_sessions() {
    let folder = std::env::temp_dir().join(format!("mad-sample-{}", std::process::id()));
    let file = folder.join("figures.txt");
    let path = file.to_str().unwrap();
    let args = ["sample", "--iters", "5", "--rounds", "1", "--json", "--output", path];
    let output = mad(&args).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let lines: Vec<serde_json::Value> =
        out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (driver, protocol) in
        [("shm", "eager"), ("shm", "stream"), ("tcp", "eager"), ("tcp", "stream")]
    {
        let of_this = |line: &&serde_json::Value| {
            line["config"]["driver"] == driver && line["config"]["protocol"] == protocol
        };
        assert!(lines.iter().filter(of_this).count() > 5, "{driver} {protocol}");
    }
    assert!(lines.iter().all(|line| line["median"].as_f64().unwrap() > 0.0));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("newmad sampling 1\n") && text.contains("\ntcp stream 65536 "));

    let hello = || {
        let program = example("hello");
        let mut command = mad(&["run", "-n", "2", program.to_str().unwrap()]);
        command.env("NMAD_SAMPLING", &file);
        command.output().unwrap()
    };
    let output = hello();
    assert!(output.status.success(), "{}", err(&output));
    // Cut: named, with the way out.
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    let output = hello();
    assert!(!output.status.success());
    let said = err(&output) + &out(&output);
    assert!(said.contains("NMAD_SAMPLING") && said.contains("mad sample"), "{said}");
    // A file that was not asked for does not stop a program.
    let cache = folder.join("cache");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
    let usual = cache.join("newmad").join(format!("sampling-{host}.txt"));
    std::fs::create_dir_all(usual.parent().unwrap()).unwrap();
    std::fs::write(&usual, "nonsense").unwrap();
    let program = example("hello");
    let mut command = mad(&["run", "-n", "2", program.to_str().unwrap()]);
    let output = command.env("XDG_CACHE_HOME", &cache).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn figures_are_printed_when_their_file_cannot_be_written() {
    let args = ["sample", "--driver", "shm", "--iters", "5", "--rounds", "1"];
    for json in [&["--json"][..], &[]] {
        let output =
            mad(&args).args(["--output", "/dev/null/figures"]).args(json).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).contains("/dev/null/figures"), "{}", err(&output));
        let expected = if json.is_empty() { "half round trip" } else { "\"half_round_trip\"" };
        assert!(out(&output).contains(expected), "{}", out(&output));
        assert!(!out(&output).contains("written to"), "{}", out(&output));
    }
}

#[test]
fn a_rail_that_there_is_not_is_refused() {
    let output = mad(&["sample", "--driver", "pigeon"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("pigeon"), "{}", err(&output));
}
