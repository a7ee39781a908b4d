//! One virtual processor, and a thread whose input and output are always ready: its neighbours run all the same.
//!
//! Each test runs in a process of its own, since its failure is a hang.

use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use marcel::Mode;
use marcel::sync::Semaphore;
use pioman::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use pioman::pipe::pipe;
use pioman::{Completion, Hint, Manager, Runtime, TaskBuilder, fs};

#[path = "../../marcel-rs/tests/common/mod.rs"]
mod common;
#[path = "../../marcel-rs/tests/common/neighbour.rs"]
mod neighbour;

use common::in_a_child;
use neighbour::lets_a_sleeper_run;

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);
fn runtime(uring: bool) -> Runtime {
    let manager = Manager::builder().mode(Mode::Mono).uring(uring);
    Runtime::build(manager, marcel::Runtime::builder()).unwrap()
}

/// In a process of its own, on one virtual processor: makes `operations` until the neighbour has run.
fn alone<F: FnMut()>(name: &str, operations: impl FnOnce() -> F + Send) {
    in_a_child(name, LIMIT, || runtime(true).run(|| lets_a_sleeper_run(operations())));
}

#[test]
fn a_pipe_that_is_ready_lets_others_run() {
    alone("a_pipe_that_is_ready_lets_others_run", || {
        let (mut reader, mut writer) = pipe().unwrap();
        move || {
            writer.write_all(b"ball").unwrap();
            reader.read_exact(&mut [0; 4]).unwrap();
        }
    });
}

#[test]
fn a_connection_that_is_ready_lets_others_run() {
    alone("a_connection_that_is_ready_lets_others_run", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        move || {
            here.write_all(b"ball").unwrap();
            there.read_exact(&mut [0; 4]).unwrap();
            there.write_all(b"ball").unwrap();
            here.read_exact(&mut [0; 4]).unwrap();
        }
    });
}

#[test]
fn datagrams_that_are_there_let_others_run() {
    alone("datagrams_that_are_there_let_others_run", || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        move || {
            assert_eq!(socket.send_to(b"ball", address).unwrap(), 4);
            assert_eq!(socket.recv_from(&mut [0; 8]).unwrap().0, 4);
        }
    });
}

/// A file that is in the page cache, with a ring and without.
fn with_a_file(name: &str, operation: impl Fn(&fs::File) + Send + Sync) {
    in_a_child(name, LIMIT, || {
        for uring in [true, false] {
            runtime(uring).run(|| {
                let file = tempfile::tempfile().unwrap();
                file.write_all_at(&[1; 4096], 0).unwrap();
                let file = fs::File::from(file);
                lets_a_sleeper_run(|| operation(&file));
            });
        }
    });
}

#[test]
fn reads_of_a_file_in_memory_let_others_run() {
    with_a_file("reads_of_a_file_in_memory_let_others_run", |file| {
        file.read_exact_at(&mut [0; 4096], 0).unwrap();
    });
}

#[test]
fn transfers_that_have_ended_let_others_run() {
    with_a_file("transfers_that_have_ended_let_others_run", |file| {
        assert_eq!(file.start_read_at(vec![0; 64], 0).wait().0.unwrap(), 64);
    });
}

/// The server that goes on after an error holds up no other thread.
#[test]
fn an_accept_without_descriptors_is_an_error_that_lets_others_run() {
    alone("an_accept_without_descriptors_is_an_error_that_lets_others_run", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let waits = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut taken = Vec::new();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: valid pointers.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
            limit.rlim_cur = limit.rlim_cur.min(64);
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        }
        while let Ok(another) = std::fs::File::open("/dev/null") {
            taken.push(another);
        }
        move || {
            let _keep = (&client, &accepted, &waits, &taken);
            let error = listener.accept().unwrap_err();
            // The error says what to do, around the kernel's.
            assert_eq!(error.kind(), io::Error::from_raw_os_error(libc::EMFILE).kind());
            assert!(error.to_string().contains("RLIMIT_NOFILE"), "{error}");
        }
    });
}

fn with_a_manager(name: &str, operation: impl Fn(&Manager) + Send + Sync) {
    alone(name, || {
        let manager = pioman::current().unwrap();
        move || operation(&manager)
    });
}

fn complete() -> Completion {
    let done = Completion::new();
    done.complete();
    done
}

#[test]
fn a_wait_for_what_is_complete_lets_others_run() {
    let done = complete();
    with_a_manager("a_wait_for_what_is_complete_lets_others_run", |manager| {
        manager.wait(&done, Hint::Short);
    });
}

#[test]
fn a_wait_with_a_deadline_lets_others_run() {
    let (done, far) = (complete(), Instant::now() + LIMIT);
    with_a_manager("a_wait_with_a_deadline_lets_others_run", |manager| {
        assert!(manager.wait_until(&done, Hint::Short, far));
    });
}

#[test]
fn a_wait_for_one_of_several_lets_others_run() {
    let done = complete();
    with_a_manager("a_wait_for_one_of_several_lets_others_run", |manager| {
        assert_eq!(manager.wait_any(&[(&done).into()]), 0);
    });
}

#[test]
fn a_wait_for_all_of_several_lets_others_run() {
    let done = complete();
    with_a_manager("a_wait_for_all_of_several_lets_others_run", |manager| {
        manager.wait_all(&[(&done).into()]);
    });
}

#[test]
fn the_manager_s_permits_let_others_run() {
    let semaphore = pioman::Semaphore::new(0);
    with_a_manager("the_manager_s_permits_let_others_run", |manager| {
        semaphore.release();
        semaphore.acquire(manager);
    });
}

#[test]
fn light_tasks_that_end_at_once_let_others_run() {
    with_a_manager("light_tasks_that_end_at_once_let_others_run", |_| {
        let manager = pioman::current().unwrap();
        TaskBuilder::new().submit_once(&manager, || ()).unwrap().wait().unwrap();
    });
}

/// Others wait behind a light task: it does not yield, however much it does that might wait.
#[test]
fn a_light_task_does_not_yield() {
    runtime(true).run(|| {
        let turns = Arc::new(AtomicUsize::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let neighbour = marcel::spawn({
            let (turns, over) = (turns.clone(), over.clone());
            move || {
                while !over.load(SeqCst) {
                    turns.fetch_add(1, SeqCst);
                    marcel::yield_now();
                }
            }
        });
        let manager = pioman::current().unwrap();
        let task = TaskBuilder::new().submit_once(&manager, {
            let turns = turns.clone();
            move || {
                let semaphore = Semaphore::new(1);
                let before = turns.load(SeqCst);
                (0..10_000).for_each(|_| drop(semaphore.acquire()));
                assert_eq!(turns.load(SeqCst), before);
            }
        });
        task.unwrap().wait().unwrap();
        over.store(true, SeqCst);
        neighbour.join().unwrap();
    });
}

/// Threads whose input never ends are unwound in a read.
#[test]
fn a_runtime_whose_threads_read_on_and_on_can_be_dropped() {
    in_a_child("a_runtime_whose_threads_read_on_and_on_can_be_dropped", LIMIT, || {
        for mode in [Mode::Mono, Mode::Smp] {
            let manager = Manager::builder().mode(mode);
            let runtime = Runtime::build(manager, marcel::Runtime::builder().vps(2)).unwrap();
            let reading = Arc::new(AtomicUsize::new(0));
            let (count, more) = (reading.clone(), reading.clone());
            drop(runtime.threads().spawn(move || {
                let (mut here, mut there) = UnixStream::pair().unwrap();
                loop {
                    here.write_all(&[1; 64]).unwrap();
                    there.read_exact(&mut [0; 64]).unwrap();
                    count.fetch_add(1, SeqCst);
                }
            }));
            drop(runtime.threads().spawn(move || {
                let file = tempfile::tempfile().unwrap();
                file.write_all_at(&[1; 64], 0).unwrap();
                let file = fs::File::from(file);
                loop {
                    file.read_exact_at(&mut [0; 64], 0).unwrap();
                    more.fetch_add(1, SeqCst);
                }
            }));
            while reading.load(SeqCst) < 10_000 {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(runtime);
        }
    });
}
