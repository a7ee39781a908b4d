//! Rule 1 of the progress path: an allocator that aborts when it is called from there. Each test sets
//! a source to work, and looks for its events with [`poll`], as a tick would.

#[path = "common/strict.rs"]
mod strict;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use pioman::pipe::pipe;
use pioman::time::Timer;
use pioman::{FileEngine, Manager, Point, Points, fs};
use strict::FORBIDDEN;

/// A manager whose only polls are those of the test.
fn manager() -> Arc<Manager> {
    Manager::builder().mode(Mode::NoThread).points(Points::NONE).build().unwrap()
}

/// Looks for events until `done`; nothing may be allocated or freed meanwhile.
fn poll_until(manager: &Manager, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "nothing happens any more");
        FORBIDDEN.set(true);
        let found = manager.poll(Point::Library);
        FORBIDDEN.set(false);
        if !found {
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_check_works() {
    if std::env::var("PIOMAN_TEST_ABORT").is_ok() {
        FORBIDDEN.set(true);
        drop(std::hint::black_box(Box::new(1)));
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_check_works"])
        .env("PIOMAN_TEST_ABORT", "1")
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .status();
    assert!(!status.unwrap().success());
}

#[test]
fn timers() {
    let manager = manager();
    let now = Instant::now();
    let at = |i: u64| now + Duration::from_micros(i * 131 % 5000);
    let timers: Vec<_> = (0..500).map(|i| Timer::with(&manager, at(i)).unwrap()).collect();
    for timer in &timers {
        poll_until(&manager, || timer.completion().is_done());
        assert!(Instant::now() >= timer.deadline());
    }
}

/// More descriptors than one system call reports, and threads that wait for each.
#[test]
fn descriptors() {
    let manager = manager();
    let pipes = (0..150).map(|_| pipe().unwrap());
    let (readers, mut writers): (Vec<_>, Vec<_>) = pipes.unzip();
    let (readers, taken) = (Arc::new(readers), Arc::new(AtomicUsize::new(0)));
    let waiters: Vec<_> = (0..5)
        .map(|i| {
            let (manager, readers, taken) = (manager.clone(), readers.clone(), taken.clone());
            std::thread::spawn(move || {
                let _entered = manager.enter();
                for round in 0..20 {
                    for mut reader in readers.iter().skip(i).step_by(5) {
                        let mut byte = [0];
                        reader.read_exact(&mut byte).unwrap();
                        assert_eq!(byte, [round]);
                        taken.fetch_add(1, SeqCst);
                    }
                }
            })
        })
        .collect();
    for round in 0..20 {
        writers.iter_mut().for_each(|writer| writer.write_all(&[round]).unwrap());
        let all = 150 * (round as usize + 1);
        poll_until(&manager, || taken.load(SeqCst) == all);
    }
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    assert!(manager.hits(Point::Library) > 0, "only the waiters have looked");
}

#[test]
fn io_uring() {
    let manager = manager();
    if !matches!(manager.file_engine(), FileEngine::Uring { .. }) {
        eprintln!("no io_uring here");
        return;
    }
    let _entered = manager.enter();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let pipe = fs::File::from(std::os::fd::OwnedFd::from(reader));
    for round in 0..20u8 {
        let reads: Vec<_> = (0..100).map(|_| pipe.start_read(vec![0; 1])).collect();
        let (taken, left) = reads.split_at(50);
        writer.write_all(&[round; 50]).unwrap();
        // Some are given up: of each half, whichever the kernel serves.
        left.iter().for_each(|read| read.cancel());
        poll_until(&manager, || reads.iter().filter(|read| read.has_ended()).count() >= 50);
        let missing = taken.iter().filter(|read| !read.has_ended()).count();
        writer.write_all(&vec![round; missing]).unwrap();
        poll_until(&manager, || reads.iter().all(|read| read.has_ended()));
        let served = reads.into_iter().map(|read| read.wait());
        let served: Vec<_> = served.filter(|(n, _)| n.is_ok()).collect();
        assert!(served.iter().all(|(_, byte)| byte == &[round]));
        let rest = 50 + missing - served.len();
        for _ in 0..rest {
            assert_eq!(pipe.start_read(vec![0; 1]).wait().1, [round]);
        }
    }
}
