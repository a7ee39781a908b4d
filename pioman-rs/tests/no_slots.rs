//! A process that has used up the C library's fast thread-specific keys: no kernel thread has a slot (`marcel`'s
//! `os/slot.rs`).

mod common;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::Mailbox;
use marcel::Mode;
use pioman::{Hint, Manager, SourceHandle, Waitable};

/// A callback runs when its thread has no source pinned: it may remove one, which waits for pins.
#[test]
fn a_callback_may_remove_a_source_where_threads_have_no_slots() {
    for _ in 0..40 {
        let mut key = 0;
        // SAFETY: a valid place for the key, no destructor.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, None) }, 0);
    }
    let manager = Manager::builder().mode(Mode::Smp).build().unwrap();
    assert!(marcel::plumbing::slot::current().is_none(), "the test is about threads without slots");
    let mailbox = Mailbox::new(1);
    let other: Arc<Mutex<Option<SourceHandle>>> = Arc::default();
    *other.lock().unwrap() = Some(manager.add_source(Mailbox::new(1)).unwrap());
    let source = manager.add_source(mailbox.clone()).unwrap();
    let removed = Arc::new(AtomicBool::new(false));
    let (handle, flag) = (other.clone(), removed.clone());
    let callback = Waitable::from(&mailbox.requests[0]).on_ready(move || {
        drop(handle.lock().unwrap().take());
        flag.store(true, SeqCst);
    });
    mailbox.submitted.store(1, SeqCst);
    mailbox.deliver();
    let until = Instant::now() + Duration::from_secs(60);
    assert!(manager.wait_until(&mailbox.requests[0], Hint::Short, until));
    while !removed.load(SeqCst) {
        assert!(Instant::now() < until, "the callback waits for its own thread's pin");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(callback);
    drop(source);
}
