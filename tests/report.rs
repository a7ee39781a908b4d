//! `mad report`, and comparing runs.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{err, mad, out, run};

/// The number of the capability that lets root write any file (linux/capability.h).
const CAP_DAC_OVERRIDE: libc::c_ulong = 1;

/// An empty folder: what an earlier run of the tests left there is removed.
fn folder(name: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    match std::fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{path:?}: {error}"),
        _ => {}
    }
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// An experiment of some milliseconds.
const POLLS: [&str; 7] = ["bench", "overhead", "--json", "--mode", "no-thread", "--method", "poll"];

fn lines(size: &str) -> String {
    let output = mad(&POLLS).args(["--iters", size, "--rounds", "2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    out(&output)
}

#[test]
fn a_page_is_made_of_measured_lines() {
    let folder = folder("report");
    let (from, to) = (folder.join("lines.jsonl"), folder.join("page.html"));
    std::fs::write(&from, lines("20")).unwrap();
    let output = mad(&["report", "--from"]).arg(&from).arg("-o").arg(&to).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let page = std::fs::read_to_string(&to).unwrap();
    assert!(
        page.contains("Overhead of the I/O manager")
            && page.contains("<svg")
            && page.contains("op_time")
    );
    // Nothing is fetched from elsewhere.
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
}

#[test]
fn an_experiment_is_measured_for_the_report() {
    let folder = folder("report-measured");
    let to = folder.join("page.html");
    let output = mad(&["report", "--only", "overhead", "-o"]).arg(&to).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let written = std::fs::read_to_string(folder.join("page.jsonl")).unwrap();
    assert!(written.lines().count() >= 4, "{written}");
    assert!(std::fs::read_to_string(&to).unwrap().contains("mad bench overhead"));
    // The lines say where they were measured: a page that is made of them again names the same machine.
    let again = folder.join("again.html");
    let output = mad(&["report", "--from"])
        .arg(folder.join("page.jsonl"))
        .arg("-o")
        .arg(&again)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let machine = |page: &std::path::Path| {
        let page = std::fs::read_to_string(page).unwrap();
        page.lines()
            .find(|line| line.contains("Machine:"))
            .unwrap()
            .split("</li>")
            .next()
            .unwrap()
            .to_owned()
    };
    assert!(machine(&to).contains("of its cores, Linux"), "{}", machine(&to));
    assert_eq!(machine(&to), machine(&again));
}

#[test]
fn wrong_usage_says_what_there_is() {
    let output = run(&["report", "--only", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("overlap"), "{}", err(&output));
    let output = run(&["report", "--from", "/nonexistent/lines"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("/nonexistent/lines"), "{}", err(&output));
}

#[test]
fn a_run_is_compared_with_an_earlier_one() {
    let folder = folder("compare");
    let old = folder.join("old.jsonl");
    // An earlier run in which everything took no time at all: now it is worse.
    let text: String = lines("20")
        .lines()
        .map(|line| {
            let mut object: serde_json::Value = serde_json::from_str(line).unwrap();
            for key in ["mean", "min", "p10", "median", "p90", "p99", "max", "ci_low", "ci_high"] {
                object[key] = 0.0.into();
            }
            format!("{object}\n")
        })
        .collect();
    std::fs::write(&old, text).unwrap();
    let output = mad(&POLLS).args(["--iters", "20", "--compare"]).arg(&old).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("worse: overhead op_time"), "{}", err(&output));
}

#[test]
fn a_report_is_compared_with_an_earlier_one() {
    let folder = folder("report-compared");
    let (from, to) = (folder.join("lines.jsonl"), folder.join("page.html"));
    std::fs::write(&from, lines("20")).unwrap();
    let mut command = mad(&["report", "--from"]);
    let output =
        command.arg(&from).arg("-o").arg(&to).arg("--compare").arg(&from).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let count = lines("20").lines().count();
    assert!(
        out(&output).contains(&format!("{count} of {count} medians agree")),
        "{}",
        out(&output)
    );
}

#[test]
fn a_report_overwrites_nothing_that_it_reads() {
    let folder = folder("report-spares");
    let text = lines("20");
    std::fs::write(folder.join("page.jsonl"), &text).unwrap();
    std::fs::write(folder.join("lines"), &text).unwrap();
    std::os::unix::fs::symlink("page.jsonl", folder.join("link")).unwrap();
    for (args, said) in [
        (&["--only", "overhead", "-o", "page.html", "--compare", "page.jsonl"][..], "page.jsonl"),
        (&["--only", "overhead", "-o", "page.html", "--compare", "link"], "link"),
        (&["--from", "page.jsonl", "--compare", "lines", "-o", "lines"], "lines"),
        (&["--from", "lines", "page.jsonl", "-o", "lines"], "lines"),
        (&["--from", "page.jsonl", "-o", "./page.jsonl"], ".html"),
        (&["--from", "lines", "-o", "new.jsonl"], ".html"),
    ] {
        let output = mad(&["report"]).args(args).current_dir(&folder).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(said), "{args:?}: {}", err(&output));
        for file in ["page.jsonl", "lines"] {
            assert_eq!(std::fs::read_to_string(folder.join(file)).unwrap(), text, "{args:?}");
        }
    }
    assert!(!folder.join("new.jsonl").exists());
    // The page of those lines has a name of its own.
    let args = ["report", "--from", "page.jsonl", "-o", "page.html"];
    let output = mad(&args).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

#[test]
fn an_interrupted_report_has_what_was_measured() {
    let folder = folder("report-interrupted");
    let (page, measured) = (folder.join("page.html"), folder.join("page.jsonl"));
    // A round takes four seconds.
    let mut command = mad(&["report", "--only", "idle", "-o"]);
    command.arg(&page).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut report = command.spawn().unwrap();
    // After the first round its lines stand below the conditions; four more are to come: sixteen seconds.
    let until = Instant::now() + Duration::from_secs(120);
    while !std::fs::read_to_string(&measured).unwrap_or_default().contains("\"bench\"") {
        assert!(Instant::now() < until, "no round has ended");
        assert!(report.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    // SAFETY: takes no pointers; the process was not waited for, so its number is its own.
    unsafe { libc::kill(report.id() as i32, libc::SIGINT) };
    let output = report.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", err(&output));
    assert!(err(&output).contains("interrupted"), "{}", err(&output));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("(interrupted)") && !page.contains("5 rounds"), "{page}");
}

#[test]
fn an_experiment_that_a_report_does_not_have_is_refused_and_costs_no_earlier_one() {
    let folder = folder("report-lacks");
    let earlier = lines("20");
    let foreign = earlier.replace("\"bench\":\"overhead\"", "\"bench\":\"control-messages\"");
    assert_ne!(earlier, foreign);
    for (file, text) in
        [("page.html", "an earlier page"), ("page.jsonl", &earlier), ("foreign.jsonl", &foreign)]
    {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let count = earlier.lines().count();
    let none = format!("of {count} lines none");
    for (args, said) in [
        (&["--only", "control-messages"][..], "'control-messages'"),
        (&["--only", "overhead,eager-channels"], "'eager-channels'"),
        (&["--only", "virtual-rails"], "'virtual-rails'"),
        (&["--from", "foreign.jsonl"], &none),
        (&["--from", "foreign.jsonl", "--only", "overlap"], &none),
    ] {
        let mut command = mad(&["report", "-o", "page.html"]);
        let output = command.args(args).current_dir(&folder).output().unwrap();
        let said_there = err(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said_there}");
        assert!(said_there.contains(said), "{args:?}: {said_there}");
        assert_eq!(said_there.matches(" overlap,").count(), 1, "{args:?}: {said_there}");
        for (file, text) in [("page.html", "an earlier page"), ("page.jsonl", &earlier)] {
            assert_eq!(std::fs::read_to_string(folder.join(file)).unwrap(), text, "{args:?}");
        }
    }
    let args = ["report", "--from", "foreign.jsonl", "page.jsonl", "-o", "both.html"];
    let output = mad(&args).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let left_out = format!("{count} of {} lines", 2 * count);
    assert!(err(&output).contains(&left_out), "{}", err(&output));
}

#[test]
fn what_cannot_be_written_is_named_before_anything_is_measured() {
    let folder = folder("report-unwritable");
    std::fs::create_dir_all(folder.join("folder.html")).unwrap();
    std::fs::create_dir_all(folder.join("lines.jsonl")).unwrap();
    std::fs::write(folder.join("folder.jsonl"), "earlier lines").unwrap();
    // Trying the page does not make what its link names.
    std::os::unix::fs::symlink("nothing.html", folder.join("lines.html")).unwrap();
    for (page, named) in [
        ("folder.html", "folder.html"),
        ("lines.html", "lines.jsonl"),
        ("missing/page.html", "missing/page"),
    ] {
        let args = ["report", "--only", "idle", "--rounds", "1", "-o", page];
        let output = mad(&args).current_dir(&folder).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{page}: {}", err(&output));
        assert!(err(&output).contains(named), "{page}: {}", err(&output));
        assert!(!err(&output).contains("round 1"), "{page}: {}", err(&output));
    }
    let earlier = std::fs::read_to_string(folder.join("folder.jsonl")).unwrap();
    assert_eq!(earlier, "earlier lines");
    let mut left: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["folder.html", "folder.jsonl", "lines.html", "lines.jsonl"]);
}

#[test]
fn lines_that_may_only_be_read_are_replaced_and_a_link_to_nothing_is_followed() {
    let folder = folder("report-replaces");
    let lines = folder.join("page.jsonl");
    std::fs::write(&lines, "earlier lines").unwrap();
    std::fs::set_permissions(&lines, std::fs::Permissions::from_mode(0o444)).unwrap();
    std::os::unix::fs::symlink("new.html", folder.join("page.html")).unwrap();
    let mut command = mad(&["report", "--only", "overhead", "--rounds", "1", "-o", "page.html"]);
    // Root writes what it may only read by this capability; other users do not have it, and the call fails.
    let bounded = || {
        // SAFETY: the call takes no pointers, allocates nothing and takes no lock.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: `bounded` only makes that call.
    unsafe { command.pre_exec(bounded) };
    let output = command.current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(std::fs::read_to_string(&lines).unwrap().contains("\"bench\""));
    assert!(folder.join("page.html").is_symlink() && !folder.join("new.html").is_symlink());
    assert!(std::fs::read_to_string(folder.join("new.html")).unwrap().contains("<svg"));
}

#[test]
fn a_report_without_a_line_leaves_the_earlier_lines() {
    let folder = folder("report-empty");
    std::fs::write(folder.join("page.jsonl"), "earlier lines").unwrap();
    let mut command = mad(&["report", "--only", "overhead", "--rounds", "1", "-o", "page.html"]);
    // No worker starts with this.
    command.env("PIOM_TIMER_PERIOD", "often").current_dir(&folder);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(folder.join("page.html").exists(), "{}", err(&output));
    let earlier = std::fs::read_to_string(folder.join("page.jsonl")).unwrap();
    assert_eq!(earlier, "earlier lines");
}

#[test]
fn a_page_that_does_not_fit_can_be_made_again_from_the_lines() {
    let folder = folder("report-full");
    // Each write to it fails as on a full disk.
    std::os::unix::fs::symlink("/dev/full", folder.join("page.html")).unwrap();
    let args = ["report", "--only", "overhead", "--rounds", "1", "-o", "page.html"];
    let output = mad(&args).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("mad report --from page.jsonl -o FILE"), "{}", err(&output));
    let again = ["report", "--from", "page.jsonl", "-o", "again.html"];
    let output = mad(&again).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}
