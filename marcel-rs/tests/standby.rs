//! Blocking calls by standby: what runs while the caller's virtual processor sits in the kernel, and what waits.

#[path = "common/rounding.rs"]
mod rounding;

use std::io::{PipeReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::Duration;

use marcel::blocking::{Mechanism, export, standby};
use marcel::sync::Semaphore;
use marcel::{Mode, Runtime, blocking};

use self::rounding::{UPWARD, fegetround, fesetround};

/// One virtual processor for computing threads: mono mode, and smp.
fn one_vp() -> [Runtime; 2] {
    [Mode::Mono, Mode::Smp].map(|mode| Runtime::builder().mode(mode).vps(1).build().unwrap())
}

/// Runs `f` as a compute thread.
fn run<T: Send + 'static>(runtime: &Runtime, f: impl FnOnce() -> T + Send + 'static) -> T {
    runtime.spawn(f).join().unwrap()
}

fn read_all(mut pipe: PipeReader) -> String {
    let mut text = String::new();
    pipe.read_to_string(&mut text).unwrap();
    text
}

fn here() -> ThreadId {
    std::thread::current().id()
}

#[test]
fn a_thread_that_never_ran_runs_while_the_only_virtual_processor_blocks() {
    for runtime in one_vp() {
        for _ in 0..100 {
            let text = run(&runtime, || {
                let (reader, mut writer) = std::io::pipe().unwrap();
                let fresh = marcel::spawn(move || writer.write_all(b"from the standby").unwrap());
                let text = standby(|| read_all(reader));
                fresh.join().unwrap();
                text
            });
            assert_eq!(text, "from the standby");
        }
    }
}

/// The standby's kernel thread is started by a thread that rounds in its own way.
#[test]
fn a_thread_on_a_standby_begins_with_the_usual_rounding() {
    for runtime in one_vp() {
        let (told, own) = run(&runtime, || {
            fesetround(UPWARD);
            let (mut reader, mut writer) = std::io::pipe().unwrap();
            let fresh =
                marcel::spawn(move || writer.write_all(&fegetround().to_ne_bytes()).unwrap());
            let mut told = [0; 4];
            standby(|| reader.read_exact(&mut told).unwrap());
            fresh.join().unwrap();
            (i32::from_ne_bytes(told), fegetround())
        });
        assert_eq!((told, own), (0, UPWARD));
    }
}

#[test]
fn a_thread_that_comes_during_the_call_runs() {
    for runtime in one_vp() {
        for _ in 0..100 {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let began = Arc::new(AtomicBool::new(false));
            let began_there = began.clone();
            let reading = runtime.spawn(move || {
                standby(|| {
                    began_there.store(true, SeqCst);
                    read_all(reader)
                })
            });
            while !began.load(SeqCst) {
                std::thread::yield_now();
            }
            runtime.spawn(move || writer.write_all(b"late").unwrap()).join().unwrap();
            assert_eq!(reading.join().unwrap(), "late");
        }
    }
}

/// What was started during a call stays on the kernel thread that started it, and goes on after the return; what
/// it spawns then finds a virtual processor.
#[test]
fn threads_that_the_standby_started_go_on_after_the_return() {
    for runtime in one_vp() {
        run(&runtime, || {
            let vp = here();
            let (reader, mut writer) = std::io::pipe().unwrap();
            let (go, done) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
            let started = {
                let (go, done) = (go.clone(), done.clone());
                marcel::spawn(move || {
                    let standby = here();
                    writer.write_all(b"started").unwrap();
                    drop(writer);
                    for _ in 0..50 {
                        go.acquire().forget();
                        assert_eq!(here(), standby);
                        assert_eq!(marcel::spawn(|| 7).join().unwrap(), 7);
                        marcel::yield_now();
                        done.release();
                    }
                    // It is on a standby: such a call is made elsewhere.
                    let exported = blocking(here);
                    assert_ne!(exported, standby);
                    assert_eq!(marcel::blocking::standby(here), standby);
                    standby
                })
            };
            assert_eq!(standby(|| read_all(reader)), "started");
            for _ in 0..50 {
                go.release();
                done.acquire().forget();
            }
            assert_ne!(started.join().unwrap(), vp);
        });
    }
}

#[test]
fn threads_that_the_virtual_processor_had_started_wait_for_the_return() {
    for runtime in one_vp() {
        run(&runtime, || {
            let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let started = {
                let (turns, stop) = (turns.clone(), stop.clone());
                marcel::spawn(move || {
                    while !stop.load(SeqCst) {
                        turns.fetch_add(1, SeqCst);
                        marcel::yield_now();
                    }
                })
            };
            while turns.load(SeqCst) == 0 {
                marcel::yield_now();
            }
            let (before, after) = standby(|| {
                let before = turns.load(SeqCst);
                std::thread::sleep(Duration::from_millis(30));
                (before, turns.load(SeqCst))
            });
            assert_eq!(before, after);
            while turns.load(SeqCst) == after {
                marcel::yield_now();
            }
            stop.store(true, SeqCst);
            started.join().unwrap();
        });
    }
}

#[test]
fn by_itself_a_call_is_exported_only_where_others_have_been_started() {
    for runtime in one_vp() {
        run(&runtime, || {
            let vp = here();
            assert_eq!(blocking(here), vp);
            let (started, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
            let other = {
                let (started, go) = (started.clone(), go.clone());
                marcel::spawn(move || {
                    started.release();
                    go.acquire().forget();
                })
            };
            started.acquire().forget();
            assert_ne!(blocking(here), vp);
            go.release();
            other.join().unwrap();
            assert_eq!(blocking(here), vp);
        });
    }
}

#[test]
fn a_builder_and_each_call_can_force_a_mechanism() {
    let with = |mechanism| {
        let runtime = Runtime::builder().vps(1).blocking(mechanism).build().unwrap();
        run(&runtime, || {
            let vp = here();
            assert!(export(here) != vp && standby(here) == vp);
            blocking(here) == vp
        })
    };
    assert!(with(Mechanism::Standby));
    assert!(!with(Mechanism::Export));
}

#[test]
fn the_closure_stays_where_it_is_and_may_panic_nest_and_wait() {
    for runtime in one_vp() {
        run(&runtime, || {
            let local = Rc::new(3);
            assert_eq!(standby(|| *local + standby(|| *local)), 6);
            let payload =
                catch_unwind(AssertUnwindSafe(|| standby(|| panic!("as planned")))).unwrap_err();
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"as planned"));
            // A closure that spawns and waits lets its virtual processor, and the standby, run others.
            let sum: usize = standby(|| {
                let threads: Vec<_> = (0..20usize).map(|i| marcel::spawn(move || i)).collect();
                threads.into_iter().map(|t| t.join().unwrap()).sum()
            });
            assert_eq!(sum, 190);
        });
    }
}

/// All virtual processors sit in calls that end only when as many threads that never ran have run.
#[test]
fn every_standby_helps_when_every_virtual_processor_blocks() {
    for (mode, vps) in [(Mode::Mono, 1), (Mode::Smp, 2), (Mode::Smp, 8)] {
        let runtime = Runtime::builder().mode(mode).vps(vps).build().unwrap();
        let inside = Arc::new(AtomicUsize::new(0));
        let mut writers = Vec::new();
        let readers: Vec<_> = (0..vps)
            .map(|_| {
                let (reader, writer) = std::io::pipe().unwrap();
                writers.push(writer);
                let inside = inside.clone();
                runtime.spawn(move || {
                    standby(|| {
                        inside.fetch_add(1, SeqCst);
                        while inside.load(SeqCst) < vps {
                            std::thread::yield_now();
                        }
                        read_all(reader)
                    })
                })
            })
            .collect();
        while inside.load(SeqCst) < vps {
            std::thread::yield_now();
        }
        let fresh: Vec<_> = writers
            .into_iter()
            .map(|mut writer| runtime.spawn(move || writer.write_all(b"x").unwrap()))
            .collect();
        fresh.into_iter().for_each(|t| t.join().unwrap());
        readers.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), "x"));
    }
}

/// A runtime is dropped while a call blocks and the standby's threads wait: the call is waited for, they are unwound.
#[test]
fn a_runtime_that_stops_waits_for_the_call_and_unwinds_the_standbys_threads() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    for runtime in one_vp() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (ended, unwound) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let parked = Arc::new(AtomicBool::new(false));
        let calling = {
            let (ended, dropped, parked) =
                (ended.clone(), Dropped(unwound.clone()), parked.clone());
            runtime.spawn(move || {
                let waiting = marcel::spawn(move || {
                    let _dropped = dropped;
                    parked.store(true, SeqCst);
                    loop {
                        marcel::park();
                    }
                });
                standby(|| {
                    assert_eq!(read_all(reader), "end");
                    ended.store(true, SeqCst);
                });
                drop::<marcel::JoinHandle<()>>(waiting);
                marcel::park();
            })
        };
        while !parked.load(SeqCst) {
            std::thread::yield_now();
        }
        let dropping = std::thread::spawn(move || drop(runtime));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!dropping.is_finished());
        writer.write_all(b"end").unwrap();
        drop(writer);
        dropping.join().unwrap();
        assert!(ended.load(SeqCst) && unwound.load(SeqCst));
        let _ = calling.join();
    }
}

/// Threads of all sorts at once, so that calls begin and end while work comes and standbys fall asleep.
#[test]
fn calls_come_and_go_while_threads_are_spawned() {
    for (mode, vps) in [(Mode::Mono, 1), (Mode::Smp, 2), (Mode::Smp, 8)] {
        let runtime = Runtime::builder().mode(mode).vps(vps).build().unwrap();
        let threads: Vec<_> = (0..200usize)
            .map(|i| {
                runtime.spawn(move || {
                    let child = marcel::spawn(move || {
                        if i % 2 == 0 {
                            marcel::yield_now();
                        }
                        standby(|| {
                            if i % 7 == 0 {
                                std::thread::sleep(Duration::from_micros(100))
                            }
                        });
                        i
                    });
                    let read = match i % 3 {
                        0 => standby(|| std::fs::read("/proc/self/stat").unwrap().len()),
                        1 => blocking(|| std::fs::read("/proc/self/stat").unwrap().len()),
                        _ => export(|| std::fs::read("/proc/self/stat").unwrap().len()),
                    };
                    assert!(read > 0);
                    child.join().unwrap()
                })
            })
            .collect();
        let sum: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
        assert_eq!(sum, 199 * 200 / 2);
    }
}
