//! `mad run`: what it starts, how it ends, and that nothing remains. Programs here are the shell's, so these
//! tests are about the launcher alone.

mod common;

use std::ffi::CStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{alone, err, eventually, mad, out, processes_with, run};

/// Talks PMI-1 from the shell: sends the arguments as one line, prints the answer.
const SH_PMI: &str =
    r#"pmi() { printf '%s\n' "$*" >&$PMI_FD; IFS= read -r answer <&$PMI_FD; echo "$answer"; };"#;

#[test]
fn a_job_that_cannot_be_started_whole_leaves_nothing() {
    let mark = format!("MAD_TEST_MARK=half-{}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let mut command = mad(&["run", "-n", "200", "sh", "-c", "sleep 600 >/dev/null 2>&1 & wait"]);
    let few = || {
        let few = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
        // SAFETY: `few` is a valid limit; the call is async-signal-safe.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &few) };
        Ok(())
    };
    // SAFETY: `few` only makes that call: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(few) };
    let output = command.env(name, value).output().unwrap();
    let left = processes_with(&mark);
    for &left in &left {
        // SAFETY: takes no pointers.
        unsafe { libc::kill(left as i32, libc::SIGKILL) };
    }
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("ulimit -n"), "{}", err(&output));
    assert_eq!(left, []);
}

#[test]
fn files_of_the_job_in_shared_memory_go_with_it() {
    let script = r#"file=/dev/shm/$MAD_JOB-left; : >"$file"; ls "$file""#;
    let output = run(&["run", "-n", "1", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let (text, file) = (out(&output), "/dev/shm/");
    assert!(text.starts_with(file) && text.trim().len() > file.len() + "-left".len(), "{text}");
    assert!(!std::path::Path::new(text.trim()).exists(), "{text}");
}

#[test]
fn ranks_know_who_they_are() {
    let script = "echo rank $PMI_RANK of $PMI_SIZE local $MAD_LOCAL_RANK of $MAD_LOCAL_SIZE driver $NMAD_DRIVER mode $MARCEL_MODE";
    let output = run(&[
        "run",
        "-n",
        "3",
        "--driver",
        "tcp",
        "--mode",
        "mono",
        "--tag-output",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    for rank in 0..3 {
        let line = format!("[{rank}] rank {rank} of 3 local {rank} of 3 driver tcp mode mono");
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
}

#[test]
fn without_tags_output_passes_as_it_is() {
    let output = run(&["run", "sh", "-c", "printf 'no newline'; echo error >&2"]);
    assert_eq!((out(&output).as_str(), err(&output).as_str()), ("no newline", "error\n"));
}

#[test]
fn options_of_the_program_are_the_programs() {
    let output = run(&["run", "-n", "1", "echo", "-n", "--driver", "--help"]);
    assert_eq!(out(&output), "--driver --help");
}

#[test]
fn tagged_lines_are_never_mixed() {
    let script = "i=0; while [ $i -lt 300 ]; do printf 'aaaaaaaaaa'; printf 'bbbbbbbbbb\\n'; i=$((i+1)); done; printf last";
    let output = run(&["run", "-n", "4", "--tag-output", "sh", "-c", script]);
    let text = out(&output);
    assert_eq!(text.lines().count(), 4 * 301);
    for line in text.lines() {
        let (tag, rest) = line.split_at(4);
        assert!(["[0] ", "[1] ", "[2] ", "[3] "].contains(&tag), "{line}");
        assert!(rest == "aaaaaaaaaabbbbbbbbbb" || rest == "last", "{line}");
    }
}

#[test]
fn the_oversubscribed_switch_sets_a_knob_but_not_the_users() {
    let args = ["run", "--oversubscribed", "sh", "-c", "echo $MARCEL_NVP"];
    assert_eq!(out(&run(&args)), "1\n");
    let output = mad(&args).env("MARCEL_NVP", "3").output().unwrap();
    assert_eq!(out(&output), "3\n");
}

#[test]
fn the_first_failing_rank_gives_the_status() {
    let output = run(&["run", "-n", "3", "sh", "-c", "if [ $PMI_RANK = 1 ]; then exit 7; fi"]);
    assert_eq!(output.status.code(), Some(7));
    assert!(
        err(&output).contains("rank 1") && err(&output).contains("status 7"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_missing_program_is_named() {
    let output = run(&["run", "-n", "2", "no-such-program-anywhere"]);
    assert_eq!(output.status.code(), Some(1));
    let text = err(&output);
    assert!(text.contains("no-such-program-anywhere") && text.contains("PATH="), "{text}");
    let output = run(&["run", "./no/such/program"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("./no/such/program"), "{}", err(&output));
    let output = run(&["run", "/etc"]);
    assert!(err(&output).contains("directory"), "{}", err(&output));
    let output = run(&["run", "/etc/passwd"]);
    assert!(err(&output).contains("permission"), "{}", err(&output));
}

/// Makes a file that may be executed. Another process writes it: one that this process starts meanwhile may have the file open
/// for writing for a moment, and then nothing can execute it.
fn make_executable(file: &Path, contents: &[u8]) {
    let source = file.with_extension("source");
    std::fs::write(&source, contents).unwrap();
    let made = Command::new("install").args(["-m", "755"]).args([&source, file]).status().unwrap();
    assert!(made.success());
}

/// A shell would run what looks like a command in it.
#[test]
fn what_is_neither_a_program_nor_a_script_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let started = |contents: &[u8]| {
        let file = folder.path().join("file");
        make_executable(&file, contents);
        run(&["run", "-n", "1", file.to_str().unwrap(), "word"])
    };
    let mut foreign = std::fs::read("/bin/sh").unwrap();
    foreign[18..20].copy_from_slice(&[0xed, 0xfe]); // a machine that there is not
    for contents in [&b"echo harm\n\0\x01\x02"[..], &foreign] {
        let output = started(contents);
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        let said = "is neither a program nor a script with a #! line";
        assert!(err(&output).contains(said), "{}", err(&output));
        assert_eq!(out(&output), "");
    }
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").args(["-m", "755"]).arg(&pipe).status().unwrap();
    assert!(made.success());
    let output = run(&["run", "-n", "1", pipe.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    // Text without that line is a script to every shell.
    let output = started(b"echo $0 has $1 and $PMI_SIZE\n");
    let expected = format!("{} has word and 1\n", folder.path().join("file").display());
    assert_eq!(out(&output), expected, "{}", err(&output));
}

#[test]
fn programs_are_found_without_path_and_in_a_path_with_this_folder() {
    let output = mad(&["run", "-n", "1", "uname"]).env_remove("PATH").output().unwrap();
    assert_eq!(out(&output), "Linux\n", "{}", err(&output));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own");
    for contents in ["#!/bin/sh\necho own\n", "echo own\n"] {
        make_executable(&file, contents.as_bytes());
        for path in ["", ":/usr/bin:/bin", "/usr/bin:/bin:", ".:/usr/bin"] {
            let mut command = mad(&["run", "-n", "1", "own"]);
            let output = command.env("PATH", path).current_dir(&folder).output().unwrap();
            assert_eq!(out(&output), "own\n", "PATH={path}: {}", err(&output));
        }
    }
}

#[test]
fn a_killed_rank_is_named_and_the_others_are_ended_after_the_grace_time() {
    let mark = format!("MAD_TEST_MARK=killed-{}", std::process::id());
    // The others ignore SIGTERM and start a process of their own: neither keeps them alive.
    let script = "if [ $PMI_RANK = 1 ]; then kill -9 $$; fi; trap '' TERM; sleep 600 & wait; wait";
    let start = Instant::now();
    let (name, value) = mark.split_once('=').unwrap();
    let output = mad(&["run", "-n", "3", "--grace", "0.3", "sh", "-c", script])
        .env(name, value)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains("rank 1") && err(&output).contains("SIGKILL"),
        "{}",
        err(&output)
    );
    // 0.3 s of grace and 1 s between SIGTERM and SIGKILL, against 600 s: wide for a busy machine.
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(processes_with(&mark), []);
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let output = run(&["run", "-n", "2", "--timeout", "0.2", "sleep", "600"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("time limit (--timeout)"), "{}", err(&output));
}

#[test]
fn orphans_of_a_successful_job_do_not_remain() {
    let mark = format!("MAD_TEST_MARK=orphans-{}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    for options in [&["run", "-n", "2"][..], &["run", "-n", "2", "--tag-output"]] {
        let start = Instant::now();
        let status = mad(options)
            .args(["sh", "-c", "sleep 600 & exit 0"])
            .env(name, value)
            .status()
            .unwrap();
        assert!(status.success());
        assert!(start.elapsed() < Duration::from_secs(20));
        assert_eq!(processes_with(&mark), []);
    }
}

#[test]
fn processes_that_were_there_before_are_left_alone() {
    let mark = format!("MAD_TEST_MARK=before-{}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let mad_path = env!("CARGO_BIN_EXE_mad");
    let script =
        format!("sleep 601 >/dev/null 2>&1 & exec {mad_path} run -n 2 sh -c 'sleep 602 & exit 0'");
    let status =
        std::process::Command::new("sh").args(["-c", &script]).env(name, value).status().unwrap();
    assert!(status.success());
    // Those of the ranks have been killed, and on a busy machine are still on their way out.
    assert!(eventually(|| processes_with(&mark).len() == 1), "{:?}", processes_with(&mark));
    let left = processes_with(&mark);
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", left[0])).unwrap();
    assert!(line.contains("601"), "{line}");
    // SAFETY: takes no pointers.
    unsafe { libc::kill(left[0] as i32, libc::SIGKILL) };
}

#[test]
fn ranks_die_with_a_killed_launcher() {
    let mark = format!("MAD_TEST_MARK=launcher-{}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let mut launcher = mad(&["run", "-n", "2", "sleep", "600"]).env(name, value).spawn().unwrap();
    assert!(eventually(|| processes_with(&mark).len() == 3));
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    assert!(eventually(|| processes_with(&mark).is_empty()), "{:?}", processes_with(&mark));
}

/// A filter that a rank has started (`2> >(grep …)`) ends a little later than the rank.
#[test]
fn what_ranks_leave_behind_may_end_by_itself_after_a_successful_job() {
    for tagged in [&[][..], &["--tag-output"]] {
        // On a busy machine it may take longer than it is given, which proves nothing.
        let has_said_all = (0..20).any(|_| {
            let begun = Instant::now();
            let mut command = mad(&["run", "-n", "1"]);
            command.args(tagged).args(["sh", "-c", "{ sleep 0.2; echo last; } & echo first"]);
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
            let has_said_all = out(&output).contains("last");
            assert!(has_said_all || begun.elapsed() > Duration::from_millis(450), "it was killed");
            has_said_all
        });
        if !has_said_all {
            println!("SKIPPED: this machine is too busy");
        }
    }
}

/// A process that a rank has left speaks on the rank's connection without end.
#[test]
fn what_is_said_for_a_rank_that_has_ended_does_not_hold_up_the_launcher() {
    // SIGKILL: a launcher that hangs may not see another signal.
    let mut command = alone("timeout");
    command.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_mad"), "run", "-n", "1"]);
    command.args(["bash", "-c", "yes '' >&$PMI_FD & exit 0"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}: {}", output.status, err(&output));
}

/// A new pseudo-terminal: the side of its user, and that of its programs. No process inherits either.
fn terminal() -> (File, File) {
    let open = |path: &str| {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(path).unwrap()
    };
    let user = open("/dev/ptmx");
    let mut name = [0; 64];
    // SAFETY: the descriptor is open, and the name is written into as many bytes as are given.
    unsafe {
        assert_eq!(libc::unlockpt(user.as_raw_fd()), 0);
        assert_eq!(libc::ptsname_r(user.as_raw_fd(), name.as_mut_ptr(), name.len()), 0);
    }
    // SAFETY: `ptsname_r` has ended the name with a zero.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    let programs = open(name.to_str().unwrap());
    (user, programs)
}

/// Has the command lead a session with this terminal, as what a terminal's window starts does. SIGHUP ends it: `nohup` has it
/// ignored, and what is ignored from its start a shell cannot trap.
fn leading(command: &mut Command, terminal: &File) {
    let fd = terminal.as_raw_fd();
    let lead = move || {
        // SAFETY: no handler is set and no memory is passed; the calls are async-signal-safe.
        let led = unsafe {
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            libc::setsid() >= 0 && libc::ioctl(fd, libc::TIOCSCTTY, 0) >= 0
        };
        if led { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: `lead` only makes these calls: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(lead) };
}

/// Starts a rank under a launcher that leads the session of a terminal, and has `act` do something to the terminal. What the
/// rank says then; a launcher that does not end is ended.
fn on_a_terminal(rank: &[&str], act: impl FnOnce(File)) -> String {
    let (user, programs) = terminal();
    let mut command = mad(&["run", "-n", "1", "--grace", "600"]);
    command.args(rank).stdout(Stdio::piped()).stderr(Stdio::null());
    leading(&mut command, &programs);
    let mut launcher = command.spawn().unwrap();
    drop(programs);
    let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    act(user);
    let ended = eventually(|| launcher.try_wait().unwrap().is_some());
    if !ended {
        for number in [libc::SIGINT, libc::SIGINT, libc::SIGKILL] {
            signal(&launcher, number);
            std::thread::sleep(Duration::from_millis(600));
        }
    }
    assert_eq!(launcher.wait().unwrap().code(), Some(1));
    assert!(ended, "the rank did not get the signal");
    lines.collect::<Vec<_>>().join("\n")
}

/// The terminal's signal reaches its foreground group, which `timeout` has left.
#[test]
fn the_terminals_interruption_reaches_ranks_that_are_in_groups_of_their_own() {
    let script = "trap 'echo got it; exit 0' INT; echo ready; while :; do sleep 0.05; done";
    let rank = ["timeout", "600", "sh", "-c", script];
    let mut kept = None;
    let said = on_a_terminal(&rank, |mut user| {
        user.write_all(b"\x03").unwrap();
        kept = Some(user); // a terminal that closes would send another signal
    });
    assert_eq!(said, "got it");
}

/// A terminal that closes tells the leader of its session alone.
#[test]
fn a_terminal_that_closes_ends_the_ranks_of_a_launcher_that_leads_its_session() {
    let script = "trap 'echo got it; exit 0' HUP; echo ready; while :; do sleep 0.05; done";
    assert_eq!(on_a_terminal(&["sh", "-c", script], drop), "got it");
}

fn signal(child: &std::process::Child, signal: i32) {
    // SAFETY: takes no pointers; the child was not waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

#[test]
fn signals_are_passed_on_and_the_second_kills() {
    let script = "trap 'echo got it' INT; echo ready; while :; do sleep 0.05; done";
    let mut launcher = mad(&["run", "-n", "1", "--grace", "600", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    signal(&launcher, libc::SIGINT);
    assert_eq!(lines.next().unwrap().unwrap(), "got it");
    signal(&launcher, libc::SIGINT);
    assert_eq!(launcher.wait().unwrap().code(), Some(1));
    let mut text = String::new();
    launcher.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("interrupted by SIGINT") && text.contains("killing"), "{text}");
}

/// A closing terminal sends SIGHUP twice, the shell's and the kernel's; `timeout` sends its signal to the process and then to
/// its group.
#[test]
fn one_interruption_that_comes_as_two_signals_leaves_ranks_their_time() {
    // Its last word comes after it has been told that both signals were sent.
    let script = "trap 'told=1' USR1; trap 'echo got it; until [ $told ]; do sleep 0.05; done; echo saved; exit 0' HUP; \
                  echo ready; while :; do sleep 0.05; done";
    // On a busy machine the signals may come so far apart that they are two interruptions, which proves nothing.
    for _ in 0..10 {
        let mut command = mad(&["run", "-n", "1", "--grace", "60", "sh", "-c", script]);
        // `nohup` has it ignored, and what is ignored from its start a shell cannot trap.
        let heed = || {
            // SAFETY: no handler is set; the call is async-signal-safe.
            unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: `heed` only makes that call: it allocates nothing and takes no lock.
        unsafe { command.pre_exec(heed) };
        let mut launcher = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        let begun = Instant::now();
        signal(&launcher, libc::SIGHUP);
        assert_eq!(lines.next().as_deref(), Some("got it"));
        signal(&launcher, libc::SIGHUP);
        signal(&launcher, libc::SIGUSR1);
        let last = lines.next();
        let apart = begun.elapsed() > Duration::from_millis(400);
        assert_eq!(launcher.wait().unwrap().code(), Some(1));
        match last {
            Some(word) => return assert_eq!(word, "saved"),
            None => assert!(apart, "it was killed"),
        }
    }
    println!("SKIPPED: this machine is too busy");
}

/// Also while processes are given the time to say what they do.
#[test]
fn an_interruption_after_the_time_limit_postpones_nothing() {
    let script = "trap '' TERM INT; trap : QUIT; while :; do sleep 1; done";
    for dump in [&[][..], &["--dump-on-timeout"]] {
        let mut command = mad(&["run", "-n", "1", "--timeout", "1", "--grace", "600"]);
        command.args(dump).args(["sh", "-c", script]);
        let mut launcher = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(launcher.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("time limit")));
        signal(&launcher, libc::SIGINT);
        let ended = eventually(|| launcher.try_wait().unwrap().is_some());
        if !ended {
            signal(&launcher, libc::SIGINT); // which ends it
        }
        assert_eq!(launcher.wait().unwrap().code(), Some(1));
        assert!(ended, "{dump:?}");
    }
}

/// Whether the user insists, or leaves the job no time.
#[test]
fn last_words_are_passed_on_after_an_interruption() {
    let script = "trap '' INT TERM; printf partial; echo ready >&2; sleep 600";
    for (grace, interruptions) in [("600", 2), ("0", 1)] {
        let options = ["run", "-n", "1", "--tag-output", "--grace", grace, "sh", "-c", script];
        let mut command = mad(&options);
        let mut launcher = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(launcher.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(said.any(|line| line == "[0] ready"));
        for _ in 0..interruptions {
            // The next one comes after it was heeded: the kernel makes one of two that wait.
            signal(&launcher, libc::SIGINT);
            assert!(said.any(|line| line.contains("interrupted")));
        }
        let output = launcher.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(out(&output), "[0] partial\n", "--grace {grace}");
    }
}

/// Has the program start with these signals ignored.
fn ignoring(command: &mut Command, signals: &'static [i32]) {
    let ignore = move || {
        for &signal in signals {
            // SAFETY: `signal` is async-signal-safe, so a child may call it between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        Ok(())
    };
    // SAFETY: `ignore` only makes that call: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(ignore) };
}

/// `nohup mad run`, and what a shell without job control starts in the background.
#[test]
fn signals_that_are_ignored_from_the_start_end_neither_the_launcher_nor_its_ranks() {
    const IGNORED: &[i32] = &[libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1];
    let script =
        "for s in HUP INT QUIT USR1; do kill -$s $$; done; echo ready; read line; echo $line";
    let mut command = mad(&["run", "-n", "1", "sh", "-c", script]);
    ignoring(&mut command, IGNORED);
    let mut launcher = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    IGNORED.iter().for_each(|&number| signal(&launcher, number));
    // The rank ends after the signals: a launcher that reads them has them all before that.
    launcher.stdin.take().unwrap().write_all(b"goes on\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "goes on");
    assert_eq!(launcher.wait().unwrap().code(), Some(0));
}

#[test]
fn a_job_ends_whose_launcher_was_started_with_sigchld_ignored() {
    let mut command = mad(&["run", "-n", "2", "sh", "-c", "exit 3"]);
    ignoring(&mut command, &[libc::SIGCHLD]);
    let mut launcher = command.stderr(Stdio::null()).spawn().unwrap();
    let ended = eventually(|| launcher.try_wait().unwrap().is_some());
    let _ = launcher.kill(); // it has ended, or hangs
    assert!(ended);
    assert_eq!(launcher.wait().unwrap().code(), Some(3));
}

#[test]
fn orphans_that_end_are_collected_while_the_job_runs() {
    let script = "for i in 1 2 3; do (: & echo $!); done; echo ready; read line";
    let mut command = mad(&["run", "-n", "1", "sh", "-c", script]);
    let mut launcher = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(launcher.stdout.take().unwrap()).lines().map(Result::unwrap);
    let orphans: Vec<String> = lines.take_while(|line| line != "ready").collect();
    assert_eq!(orphans.len(), 3, "{orphans:?}");
    let is_left = |pid: &String| std::path::Path::new("/proc").join(pid).exists();
    let collected = eventually(|| !orphans.iter().any(is_left));
    launcher.stdin.take().unwrap().write_all(b"end\n").unwrap();
    assert_eq!(launcher.wait().unwrap().code(), Some(0));
    assert!(collected, "{orphans:?}");
}

/// What processes do with SIGQUIT is theirs: those of marcel write what their threads do, and go on.
#[test]
fn quit_is_passed_on_and_ends_nothing() {
    let script = "trap 'echo got it' QUIT; echo ready; while :; do sleep 0.05; done";
    let mut launcher = mad(&["run", "-n", "1", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    for _ in 0..3 {
        signal(&launcher, libc::SIGQUIT);
        assert_eq!(lines.next().unwrap().unwrap(), "got it");
    }
    signal(&launcher, libc::SIGTERM);
    assert_eq!(launcher.wait().unwrap().code(), Some(1));
}

/// A shell ends at SIGTERM, and what it runs has to get that signal as well.
#[test]
fn a_program_below_a_script_saves_its_work_before_the_job_ends() {
    let inner =
        "trap 'sleep 0.1; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    for ends in ["signal", "rank"] {
        let script = r#"if [ $PMI_RANK = 1 ]; then sh -c "$INNER"; exit; fi; trap '' TERM; read line; exit 3"#;
        let mut launcher = mad(&["run", "-n", "2", "--grace", "0.2", "sh", "-c", script])
            .env("INNER", inner)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        match ends {
            "signal" => signal(&launcher, libc::SIGTERM),
            _ => drop(launcher.stdin.take()),
        }
        assert_eq!(lines.collect::<Vec<_>>(), ["saved"], "{ends}");
        assert_ne!(launcher.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_job_that_hangs_says_where_at_its_time_limit() {
    // Until the limit both shells have to set their traps.
    let script = "trap 'echo this is where; exit 7' QUIT; while :; do sleep 0.05; done";
    let arguments = ["run", "-n", "2", "--timeout", "10", "--dump-on-timeout", "sh", "-c", script];
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(out(&output).matches("this is where").count(), 2, "{output:?}");
}

#[test]
fn a_job_whose_output_nobody_reads_ends() {
    let mut launcher =
        mad(&["run", "-n", "2", "--tag-output", "sh", "-c", "while :; do echo y; done"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    let mut some = [0; 100];
    launcher.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let mut text = String::new();
    launcher.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(!text.contains("panicked"), "{text}");
    assert_eq!(launcher.wait().unwrap().code(), Some(1));
}

/// Standard output is piped and never read, and standard error goes elsewhere or to the same pipe.
#[test]
fn a_time_limit_holds_while_the_reader_of_the_output_pauses() {
    let ends = "printf '%0100000d\\n' 0"; // more than the pipe holds
    for (script, shared) in [("yes", false), ("yes", true), (ends, false)] {
        let (_reader, writer) = std::io::pipe().unwrap();
        let errors = if shared { writer.try_clone().unwrap().into() } else { Stdio::null() };
        let options = ["run", "-n", "1", "--tag-output", "--timeout", "0.5", "sh", "-c", script];
        let mut command = mad(&options);
        let mut launcher = command.stdout(writer).stderr(errors).spawn().unwrap();
        let ended = eventually(|| launcher.try_wait().unwrap().is_some());
        let _ = launcher.kill(); // it has ended, or hangs
        assert!(ended, "{script}, standard error in the same pipe: {shared}");
        assert_eq!(launcher.wait().unwrap().code(), Some(1));
    }
}

/// A rank writes more than the pipe holds to a reader who pauses: the launcher answers it nevertheless, and nothing is lost.
#[test]
fn ranks_are_answered_while_the_reader_of_the_output_pauses() {
    let length = 100_000;
    let script = format!(
        "{SH_PMI} printf '%0{length}d\\n' 0; pmi cmd=init pmi_version=1 pmi_subversion=1 >&2; pmi cmd=finalize >&2"
    );
    // SIGKILL: a launcher that hangs may not see another signal.
    let mut command = alone("timeout");
    command.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_mad"), "run", "-n", "1", "--tag-output"]);
    command.args(["bash", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut launcher = command.spawn().unwrap();
    let lines = BufReader::new(launcher.stderr.take().unwrap()).lines().map(Result::unwrap);
    let answered = lines.into_iter().any(|line| line == "[0] cmd=finalize_ack rc=0");
    let output = launcher.wait_with_output().unwrap();
    assert!(answered && output.status.success(), "answered: {answered}, {}", output.status);
    assert_eq!(out(&output), format!("[0] {}\n", "0".repeat(length)));
}

/// A process that no signal of the launcher's reaches has a rank's output open, and writes without end or nothing. (Here it has
/// lost the job's mark; one of another user would do, too.)
#[test]
fn a_process_that_keeps_the_output_open_does_not_hold_up_the_end() {
    for survivor in ["yes", "sleep 602"] {
        let mark = format!("MAD_TEST_MARK=keeps-{}", std::process::id());
        let mad = env!("CARGO_BIN_EXE_mad");
        let script = format!(
            "{mark} sleep 601 >/dev/null 2>&1 & \
             exec {mad} run -n 1 --tag-output sh -c 'env -i {mark} {survivor} & exit 0'"
        );
        let mut command = alone("timeout");
        command.args(["-s", "KILL", "60", "sh", "-c", &script]);
        let status = command.stdout(Stdio::null()).status().unwrap();
        for left in processes_with(&mark) {
            // SAFETY: takes no pointers.
            unsafe { libc::kill(left as i32, libc::SIGKILL) };
        }
        assert!(status.success(), "{survivor}: {status}");
    }
}

#[test]
fn an_error_of_the_output_is_named() {
    let mut command = mad(&["run", "-n", "2", "--tag-output", "sh", "-c", "echo y"]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let said = "the ranks' output cannot be written: No space left on device";
    assert_eq!(err(&output).matches(said).count(), 1, "{}", err(&output));
}

/// A process that writes beyond its limit gets SIGXFSZ. The launcher heeds the error instead; for ranks the signal means what
/// it did.
#[test]
fn a_limit_on_the_size_of_files_does_not_kill_the_launcher() {
    let mut file = tempfile::tempfile().unwrap();
    let mad = env!("CARGO_BIN_EXE_mad");
    let script = format!("ulimit -f 1; exec {mad} run -n 1 --tag-output yes");
    let mut command = alone("sh");
    let output = command.args(["-c", &script]).stdout(file.try_clone().unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}: {}", output.status, err(&output));
    let said = "the ranks' output cannot be written: File too large";
    assert!(err(&output).contains(said), "{}", err(&output));
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("[0] y\n"), "{text}");
    let output = run(&["run", "-n", "1", "sh", "-c", "kill -XFSZ $$; echo lives"]);
    assert_eq!(out(&output), "");
    assert!(err(&output).contains("SIGXFSZ (25)"), "{}", err(&output));
}

/// Messages go where the output goes: to say why the job fails is what fails.
#[test]
fn the_first_failure_gives_the_status_also_where_it_cannot_be_said() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = mad(&["run", "-n", "1", "--tag-output", "sh", "-c", "exit 7"]);
    let status = command.stdout(full.try_clone().unwrap()).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(7));
}

/// The reader makes room for one message at a time.
#[test]
fn the_last_message_is_not_lost_where_standard_error_is_full() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: no memory is passed.
    let set = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    assert_eq!(set, 0);
    let mut page = vec![b'x'; 4096];
    let mut filled = 0;
    while let Ok(written) = writer.write(&page) {
        filled += written;
    }
    let mut command = mad(&["run", "-n", "1", "--keep-going", "sh", "-c", "kill -9 $$"]);
    let mut launcher = command.stderr(writer).spawn().unwrap();
    drop(command); // and its end of the pipe
    reader.read_exact(&mut page).unwrap();
    filled -= page.len();
    assert!(eventually(|| unread(&reader) > filled));
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(launcher.wait().unwrap().code(), Some(1));
    let said = text.trim_start_matches('x');
    assert!(said.contains("the others go on") && said.contains("no rank is left"), "{said}");
}

/// How much is in a pipe.
fn unread(reader: &std::io::PipeReader) -> usize {
    let mut unread: libc::c_int = 0;
    // SAFETY: `unread` is an int, which the call writes.
    unsafe { libc::ioctl(reader.as_raw_fd(), libc::FIONREAD, &mut unread) };
    unread as usize
}

#[test]
fn output_that_another_process_has_made_non_blocking_is_waited_for() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let fd = writer.as_raw_fd();
    // SAFETY: no memory is passed.
    let room = unsafe {
        assert_eq!(libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK), 0);
        libc::fcntl(fd, libc::F_GETPIPE_SZ) as usize
    };
    let length = 3 * room;
    let script = format!("head -c {length} /dev/zero | tr '\\0' x; echo; echo end");
    let mut command = mad(&["run", "-n", "1", "--tag-output", "sh", "-c", &script]);
    let mut launcher = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    drop(command); // and its end of the pipe
    assert!(eventually(|| unread(&reader) >= room), "{} of {room}", unread(&reader));
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(launcher.wait().unwrap().code(), Some(0));
    assert_eq!(text, format!("[0] {}\n[0] end\n", "x".repeat(length)));
}

#[test]
fn standard_input_goes_to_rank_0() {
    let mut launcher = mad(&["run", "-n", "2", "--tag-output", "sh", "-c", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    launcher.stdin.take().unwrap().write_all(b"for rank 0\n").unwrap();
    assert_eq!(out(&launcher.wait_with_output().unwrap()), "[0] for rank 0\n");
}

#[test]
fn the_pmi_server_serves_a_job() {
    let script = format!(
        "{SH_PMI} pmi cmd=init pmi_version=1 pmi_subversion=1; pmi cmd=put key=k$PMI_RANK value=v$PMI_RANK; \
         pmi cmd=barrier_in; pmi cmd=get key=k$((1-PMI_RANK)); pmi cmd=finalize"
    );
    let output = run(&["run", "-n", "2", "--tag-output", "bash", "-c", &script]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    for expected in [
        "[0] cmd=get_result rc=0 msg=success value=v1",
        "[1] cmd=get_result rc=0 msg=success value=v0",
        "[1] cmd=barrier_out rc=0",
        "[0] cmd=finalize_ack rc=0",
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}: {text}");
    }
}

#[test]
fn who_waits_in_a_barrier_for_a_dead_rank_is_told() {
    let script = format!("{SH_PMI} if [ $PMI_RANK = 1 ]; then kill -9 $$; fi; pmi cmd=barrier_in");
    let output = run(&["run", "-n", "2", "--tag-output", "bash", "-c", &script]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        out(&output).contains("[0] cmd=barrier_out rc=-1 msg=rank_1_was_killed"),
        "{}",
        out(&output)
    );
}

#[test]
fn hostile_lines_end_their_rank_and_not_the_launcher() {
    let long = "head -c 20000 /dev/zero | tr '\\0' x >&$PMI_FD";
    let binary = "printf '\\377\\376\\n' >&$PMI_FD";
    let nonsense = "echo how do you do >&$PMI_FD";
    let silent = "i=0; while [ $i -lt 300000 ]; do echo cmd=get_maxes; i=$((i+1)); done >&$PMI_FD";
    for attack in [long, binary, nonsense, silent] {
        let script = format!("if [ $PMI_RANK = 1 ]; then {attack}; sleep 600; fi");
        let output = run(&["run", "-n", "2", "--grace", "0.2", "bash", "-c", &script]);
        assert_eq!(output.status.code(), Some(1), "{attack}: {}", err(&output));
        let text = err(&output);
        assert!(text.contains("rank 1 is ended") && !text.contains("panicked"), "{attack}: {text}");
    }
}

#[test]
fn an_abort_ends_the_job_with_its_code() {
    let script = "if [ $PMI_RANK = 0 ]; then echo cmd=abort exitcode=5 message=no luck >&$PMI_FD; fi; sleep 600";
    let output = run(&["run", "-n", "2", "bash", "-c", script]);
    assert_eq!(output.status.code(), Some(5), "{}", err(&output));
    assert!(err(&output).contains("rank 0 aborted the job: no luck"), "{}", err(&output));
}

/// What the job's exit status is where ranks may fail. Rank 0 does the first thing, rank 1 the second.
#[test]
fn a_job_that_keeps_going_ends_with_its_ranks_and_fails_if_one_says_so() {
    for (first, second, status, said) in [
        ("kill -9 $$", "sleep 1; echo done", 0, "was killed by SIGKILL (9); the others go on"),
        ("exit 5", "sleep 1; echo done", 5, "exited with status 5"),
        ("kill -9 $$", "sleep 0.2; kill -9 $$", 1, "no rank is left that has ended well"),
        ("kill -9 $$", "sleep 0.2; exit 6", 6, "exited with status 6"),
    ] {
        let script = format!("if [ $PMI_RANK = 0 ]; then {first}; else {second}; fi");
        let output = run(&["run", "-n", "2", "--keep-going", "sh", "-c", &script]);
        let (out, err) = (common::out(&output), common::err(&output));
        assert_eq!(output.status.code(), Some(status), "{script}: {out}{err}");
        assert!(err.contains(said), "{script}: {err}");
        // The second rank comes to its end, whatever becomes of the first.
        assert_eq!(out, if second.contains("done") { "done\n" } else { "" }, "{script}: {err}");
    }
}
