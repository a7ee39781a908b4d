//! `mad sample`, and sessions that read what it has written.

mod common;

use std::io::Read;
use std::os::unix::fs::FileTypeExt;

use common::{alone, err, example, mad, out};

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

/// `mad sample` of some milliseconds.
const SHORT: [&str; 7] = ["sample", "--driver", "shm", "--iters", "5", "--rounds", "1"];

#[test]
fn figures_are_printed_when_their_file_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full");
    // Each write to it fails as on a full disk.
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    for json in [&["--json"][..], &[]] {
        let output = mad(&SHORT).arg("--output").arg(&full).args(json).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).contains("/full"), "{}", err(&output));
        let expected = if json.is_empty() { "half round trip" } else { "\"half_round_trip\"" };
        assert!(out(&output).contains(expected), "{}", out(&output));
        assert!(!out(&output).contains("written to"), "{}", out(&output));
    }
    assert!(full.is_symlink(), "it is written into and not replaced");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_place_that_cannot_be_written_is_named_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    for place in [std::path::Path::new("/dev/null/figures"), folder.path()] {
        let output = mad(&SHORT).arg("--output").arg(place).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(err(&output).contains(place.to_str().unwrap()), "{}", err(&output));
        assert_eq!(out(&output), "");
    }
}

#[test]
fn a_pipe_with_a_name_is_written_into() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut command = mad(&SHORT);
    command.arg("--output").arg(&pipe);
    // A reader and a writer at once: opening it waits for no other, and what is written stays until it is read.
    let mut both = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo(), "it was replaced");
    let mut text = [0; 18];
    both.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"newmad sampling 1\n");
}

#[test]
fn standard_output_takes_the_file_after_what_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let (link, to) = (folder.path().join("link"), folder.path().join("to"));
    std::os::unix::fs::symlink("/dev/stdout", &link).unwrap();
    for place in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", link.to_str().unwrap()] {
        let mut command = mad(&SHORT);
        command.args(["--output", place]).stdout(std::fs::File::create(&to).unwrap());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{place}: {}", err(&output));
        let text = std::fs::read_to_string(&to).unwrap();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{place}: {part}: {text}"));
        assert!(at("half round trip") < at("newmad sampling 1\n"), "{place}: {text}");
        assert!(at("newmad sampling 1\n") < at("\nwritten to "), "{place}: {text}");
        assert!(!text.contains('\0'), "{place}: {text}");
    }
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "nothing is left beside it");
}

#[test]
fn what_adapters_read_is_sampled_and_says_from_which_length_on_they_read() {
    let ports = newmad::plumbing::ports().unwrap_or_default();
    if !ports.iter().any(|port| port.is_active) {
        eprintln!(
            "SKIPPED what adapters read: there is no adapter (ci/verbs.sh runs it in a guest)"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures");
    let args = ["sample", "--driver", "verbs", "--iters", "5", "--rounds", "1"];
    let output = mad(&args).arg("--output").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let text = std::fs::read_to_string(&file).unwrap();
    for protocol in ["eager", "stream", "read"] {
        let line = format!("verbs {protocol} ");
        assert!(text.matches(&line).count() > 5, "{protocol}: {text}");
    }
    assert!(out(&output).contains("read by adapters") || out(&output).contains("read no messages"));
    let output = mad(&["knobs", "--explain"]).env("NMAD_SAMPLING", &file).output().unwrap();
    let line = out(&output);
    let line = line.lines().find(|line| line.contains("read by the adapter from (verbs)")).unwrap();
    assert!(line.contains("measured by mad sample"), "{line}");
}

#[test]
fn a_rail_that_there_is_not_is_refused() {
    let output = mad(&["sample", "--driver", "pigeon"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("pigeon"), "{}", err(&output));
}

/// What errors of sessions recommend (`NMAD_BOOTSTRAP=alone`) is about the user's program, not about the processes that measure.
#[test]
fn the_processes_that_measure_find_each_other_whatever_the_user_says_of_the_process_manager() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = mad(&SHORT);
    command.arg("--output").arg(folder.path().join("figures"));
    let output = command.env("NMAD_BOOTSTRAP", "alone").output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let bench = ["bench", "latency", "--size", "4", "--iters", "5", "--rounds", "1", "--json"];
    let output = mad(&bench).env("NMAD_BOOTSTRAP", "alone").output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
}

/// `cargo build` during a bench.
#[test]
fn a_command_whose_file_is_gone_starts_itself_nevertheless() {
    let mad = std::path::Path::new(env!("CARGO_BIN_EXE_mad"));
    let folder = tempfile::tempdir_in(mad.parent().unwrap()).unwrap();
    let file = folder.path().join("mad");
    let script = "exec 3<\"$0\"; rm \"$0\"; exec /proc/self/fd/3 \"$@\"";
    let bench = ["bench", "latency", "--size", "4", "--iters", "5", "--rounds", "1", "--json"];
    let doctor = ["doctor", "--json"];
    for args in [&bench[..], &doctor] {
        std::fs::hard_link(mad, &file).unwrap();
        let mut command = alone("sh");
        let output = command.args(["-c", script]).arg(&file).args(args).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        let said = out(&output) + &err(&output);
        assert!(!said.contains("No such file"), "{said}");
        assert!(!file.exists());
    }
}
