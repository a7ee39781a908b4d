//! What the checked mode refuses: waits inside the initialiser of a `std::thread_local!`, and inside a scope that sets
//! one and restores it later.
#![cfg(all(feature = "backtraces", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![forbid(unsafe_code)]

#[expect(dead_code, reason = "these children get an environment of their own")]
mod common;

use std::time::Duration;

use marcel::sync::Mutex;
use marcel::{Mode, Runtime};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs this test program again with the check on; what the child wrote, and whether it succeeded.
fn checked(name: &str) -> (bool, String) {
    common::run(name, LIMIT, |command| {
        command.env("MARCEL_CHECK", "1");
    })
}

/// Two threads of one virtual processor run `f`; both have a name.
fn two_threads(f: fn()) {
    let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
    runtime.run(|| {
        let spawn = |name: &str| marcel::Builder::new().name(name).spawn(f).unwrap();
        let threads = [spawn("one"), spawn("other")];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

static LOCK: Mutex<u32> = Mutex::new(0);

#[inline(never)]
fn makes_a_text() -> String {
    let mut count = LOCK.lock();
    marcel::yield_now();
    *count += 1;
    format!("text number {count}")
}

std::thread_local! {
    static OF_STD: String = makes_a_text();
}

marcel::thread_local! {
    static OF_MARCEL: String = makes_a_text();
}

/// Borrows the text across a wait: with std's, another thread has replaced and dropped it by then.
#[inline(never)]
fn reads_std_s() {
    OF_STD.with(|text| {
        marcel::yield_now();
        assert!(text.starts_with("text number"), "{text}");
    });
}

fn reads_marcel_s() {
    OF_MARCEL.with(|text| {
        marcel::yield_now();
        assert!(text.starts_with("text number"), "{text}");
    });
}

#[test]
fn a_wait_in_the_initialiser_of_std_s_thread_local_ends_the_process_with_its_name() {
    let name = "a_wait_in_the_initialiser_of_std_s_thread_local_ends_the_process_with_its_name";
    if common::is_child(name) {
        two_threads(reads_std_s);
        return;
    }
    let (success, text) = checked(name);
    assert!(!success, "{text}");
    assert!(text.contains("'one'") || text.contains("'other'"), "{text}");
    // Where it is inlined (a debug build that is told to optimise: ci/beside-load.sh), debug information has no more than
    // its place.
    let optimised = option_env!("CARGO_PROFILE_DEV_OPT_LEVEL").is_some_and(|level| level != "0");
    if cfg!(debug_assertions) && !optimised {
        assert!(text.contains("thread_local! check::OF_STD"), "{text}");
    }
    for words in ["initialiser", "tests/check.rs:", "marcel::thread_local!", "makes_a_text"] {
        assert!(text.contains(words), "no {words} in: {text}");
    }
}

#[test]
fn a_wait_in_the_initialiser_of_marcel_s_thread_local_is_fine() {
    let name = "a_wait_in_the_initialiser_of_marcel_s_thread_local_is_fine";
    if common::is_child(name) {
        two_threads(reads_marcel_s);
        return;
    }
    let (success, text) = checked(name);
    assert!(success, "{text}");
}

scoped_tls::scoped_thread_local!(static SCOPED: String);

#[inline(never)]
fn sets_and_restores() {
    SCOPED.set(&"a text of this frame".to_owned(), || {
        marcel::yield_now();
        SCOPED.with(|text| assert_eq!(text, "a text of this frame"));
        marcel::yield_now();
    });
}

#[test]
fn a_wait_in_the_scope_of_a_scoped_thread_local_ends_the_process_with_its_caller() {
    let name = "a_wait_in_the_scope_of_a_scoped_thread_local_ends_the_process_with_its_caller";
    if common::is_child(name) {
        two_threads(sets_and_restores);
        return;
    }
    let (success, text) = checked(name);
    assert!(!success, "{text}");
    assert!(text.contains("'one'") || text.contains("'other'"), "{text}");
    for words in ["scoped_tls::ScopedKey", "sets_and_restores", "marcel::thread_local!"] {
        assert!(text.contains(words), "no {words} in: {text}");
    }
}

std::thread_local! {
    static MADE_BEFORE: std::cell::Cell<u32> = std::cell::Cell::new(std::process::id());
}

#[test]
fn a_wait_inside_with_whose_value_is_there_already_is_fine() {
    let name = "a_wait_inside_with_whose_value_is_there_already_is_fine";
    if common::is_child(name) {
        two_threads(|| {
            MADE_BEFORE.with(|count| {
                (0..100).for_each(|_| marcel::yield_now());
                count.set(count.get() + 1);
            });
        });
        return;
    }
    let (success, text) = checked(name);
    assert!(success, "{text}");
}

#[test]
fn without_the_check_nothing_is_refused() {
    let name = "without_the_check_nothing_is_refused";
    if common::is_child(name) {
        // One thread: nothing is shared.
        let runtime = Runtime::builder().mode(Mode::Mono).build().unwrap();
        runtime.run(reads_std_s);
        return;
    }
    let (success, text) = common::run(name, LIMIT, |command| {
        command.env("MARCEL_CHECK", "0");
    });
    assert!(success, "{text}");
}
