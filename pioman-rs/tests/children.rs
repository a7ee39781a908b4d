//! Child processes in every mode and from every kind of thread.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::process::{Command, Stdio};
use pioman::{Manager, Runtime};

fn runtimes() -> impl Iterator<Item = Runtime> {
    [Mode::NoThread, Mode::Mono, Mode::Smp].into_iter().map(|mode| {
        let threads = marcel::Runtime::builder().vps(2);
        Runtime::build(Manager::builder().mode(mode), threads).unwrap()
    })
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn ends_are_told_apart() {
    for runtime in runtimes() {
        runtime.run(|| {
            assert!(shell("exit 0").status().unwrap().success());
            assert_eq!(shell("exit 7").status().unwrap().code(), Some(7));
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            assert_eq!(child.try_wait().unwrap(), None);
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
            // Again, and after the end.
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
            assert!(child.wait_timeout(Duration::ZERO).unwrap().is_some());
            let nobody = Command::new("/no/such/program").spawn().unwrap_err();
            assert_eq!(nobody.kind(), std::io::ErrorKind::NotFound);
        });
    }
}

#[test]
fn a_wait_with_a_time_out_ends_with_it_or_with_the_child() {
    for runtime in runtimes() {
        runtime.run(|| {
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            for ms in [0, 1, 20] {
                let start = Instant::now();
                assert_eq!(child.wait_timeout(Duration::from_millis(ms)).unwrap(), None);
                assert!(start.elapsed() >= Duration::from_millis(ms));
            }
            child.kill().unwrap();
            let end = child.wait_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(end.unwrap().signal(), Some(libc::SIGKILL));
            let mut child = shell("exit 3").spawn().unwrap();
            let end = child.wait_timeout(Duration::MAX).unwrap();
            assert_eq!(end.unwrap().code(), Some(3));
        });
    }
}

#[test]
fn output_and_input_go_through_pipes() {
    for runtime in runtimes() {
        runtime.run(|| {
            // More than a pipe holds, on both at once.
            let output = shell("i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; \
                                echo 0123456789012345678901234567890123456789 >&2; i=$((i+1)); done; exit 2")
                .output()
                .unwrap();
            assert_eq!((output.stdout.len(), output.stderr.len()), (123_000, 123_000));
            assert_eq!(output.status.code(), Some(2));
            let output = shell("cat").output().unwrap();
            assert_eq!(output.stdout, b"", "its input is empty");
            let output = shell("echo x; echo y >&2").stderr(Stdio::null()).output().unwrap();
            assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"x\n"[..], &b""[..]));
            // A dialogue.
            let mut cat =
                Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (mut to, mut from) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
            for i in 0..100u32 {
                to.write_all(&i.to_ne_bytes()).unwrap();
                let mut back = [0; 4];
                from.read_exact(&mut back).unwrap();
                assert_eq!(u32::from_ne_bytes(back), i);
            }
            drop(to);
            assert_eq!(from.read(&mut [0; 4]).unwrap(), 0);
            assert!(cat.wait().unwrap().success());
            // A child that reads until the end of its input: waiting closes that.
            let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            assert!(cat.wait().unwrap().success());
        });
    }
}

/// Waiting for one child blocks one green thread: the others go on.
#[test]
fn many_children_at_once() {
    for runtime in runtimes().filter(|r| r.manager().mode() != Mode::NoThread) {
        let ended = Arc::new(AtomicUsize::new(0));
        let one = |i: usize| {
            let ended = ended.clone();
            move || {
                let mut child = match i % 3 {
                    0 => Command::new("sleep").arg("0.05").spawn().unwrap(),
                    1 => shell("exit 1").spawn().unwrap(),
                    _ => {
                        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
                        assert_eq!(child.wait_timeout(Duration::from_millis(5)).unwrap(), None);
                        child.kill().unwrap();
                        child
                    }
                };
                let status = child.wait().unwrap();
                let expected = [(Some(0), None), (Some(1), None), (None, Some(libc::SIGKILL))];
                assert_eq!((status.code(), status.signal()), expected[i % 3]);
                ended.fetch_add(1, SeqCst);
            }
        };
        let kernel: Vec<_> = (0..6).map(|i| std::thread::spawn(one(i))).collect();
        let jobs: Vec<_> = (0..45).map(one).collect();
        runtime.run(|| {
            let green: Vec<_> = jobs.into_iter().map(marcel::spawn).collect();
            green.into_iter().for_each(|t| t.join().unwrap());
        });
        kernel.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(ended.load(SeqCst), 51);
    }
}

/// On one virtual processor: threads wait for children that end when another thread closes their input, later.
#[test]
fn a_wait_blocks_one_green_thread() {
    for mode in [Mode::Mono, Mode::Smp] {
        let threads = marcel::Runtime::builder().vps(1);
        let runtime = Runtime::build(Manager::builder().mode(mode), threads).unwrap();
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = waiting.clone();
        let all = move || {
            let start = |_| Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let mut children: Vec<_> = (0..8).map(start).collect();
            let inputs: Vec<_> = children.iter_mut().map(|child| child.stdin.take()).collect();
            let wait = |mut child: pioman::process::Child| {
                let count = count.clone();
                marcel::spawn(move || {
                    count.fetch_add(1, SeqCst);
                    child.wait().unwrap()
                })
            };
            let waits: Vec<_> = children.into_iter().map(wait).collect();
            while count.load(SeqCst) < 8 {
                marcel::yield_now();
            }
            drop(inputs);
            waits.into_iter().for_each(|wait| assert!(wait.join().unwrap().success()));
        };
        runtime.threads().spawn(all).join().unwrap();
    }
}

/// A runtime goes while its threads wait for children that do not end.
#[test]
fn a_runtime_that_stops_does_not_wait_for_children() {
    let runtime =
        Runtime::build(Manager::builder().mode(Mode::Smp), marcel::Runtime::builder().vps(2))
            .unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let (sender, pids) = std::sync::mpsc::channel();
    for _ in 0..10 {
        let (begun, sender) = (begun.clone(), sender.clone());
        let _detached = runtime.threads().spawn(move || {
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            sender.send(child.id()).unwrap();
            begun.fetch_add(1, SeqCst);
            let _ = child.wait();
        });
    }
    while begun.load(SeqCst) < 10 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(5));
    drop(runtime);
    drop(sender);
    for pid in pids {
        // SAFETY: our children, which nobody has waited for.
        unsafe {
            assert_eq!(libc::kill(pid as i32, libc::SIGKILL), 0);
            assert_eq!(libc::waitpid(pid as i32, std::ptr::null_mut(), 0), pid as i32);
        }
    }
}

const SCENARIO: &str = "PIOMAN_CHILDREN_SCENARIO";

/// In a process of its own: where `pidfd_open` is refused (its seccomp filter stays for good).
#[test]
fn without_pidfds_children_are_asked() {
    if std::env::var(SCENARIO).is_err() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "without_pidfds_children_are_asked"])
            .env(SCENARIO, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    forbid(libc::SYS_pidfd_open);
    for runtime in runtimes() {
        runtime.run(|| {
            assert_eq!(shell("sleep 0.05; exit 5").status().unwrap().code(), Some(5));
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            assert_eq!(child.wait_timeout(Duration::from_millis(30)).unwrap(), None);
            child.kill().unwrap();
            assert!(child.wait_timeout(Duration::from_secs(60)).unwrap().is_some());
        });
    }
}

/// From now on a system call is answered by `EPERM` in this thread and those that it starts.
fn forbid(call: i64) {
    let statement =
        |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // the call's number
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, refused),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a valid program, which the kernel copies.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let done = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program, 0, 0);
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}
