//! What a panic on a green thread writes, while another green thread of its virtual processor is in the middle of one.

use std::process::Command;
use std::sync::Arc;

use marcel::Runtime;
use marcel::sync::Event;

/// Waits in its destructor until the other thread has panicked.
struct Waits {
    inside: Arc<Event>,
    over: Arc<Event>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.inside.set();
        self.over.wait();
    }
}

/// Runs in the processes of the other tests; does nothing otherwise.
#[test]
fn child() {
    let Ok(hook) = std::env::var("PANIC_TEXT") else { return };
    if hook == "own" {
        std::panic::set_hook(Box::new(|info| eprintln!("the program's hook: {info}")));
    }
    let runtime = Runtime::builder().vps(1).build().unwrap();
    runtime.run(|| {
        let (inside, over) = (Arc::new(Event::new()), Arc::new(Event::new()));
        let waits = Waits { inside: inside.clone(), over: over.clone() };
        let first = marcel::Builder::new().name("first").spawn(move || {
            let _waits = waits;
            panic!("the first panic");
        });
        let second = marcel::Builder::new().name("second").spawn(move || {
            inside.wait();
            panic!("the second panic");
        });
        assert!(second.unwrap().join().is_err());
        over.set();
        assert!(first.unwrap().join().is_err());
    });
}

fn text(hook: &str, backtrace: Option<&str>) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture"]).env("PANIC_TEXT", hook);
    match backtrace {
        Some(value) => child.env("RUST_BACKTRACE", value),
        None => child.env_remove("RUST_BACKTRACE"),
    };
    let child = child.output().unwrap();
    let text = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{text}");
    assert!(text.contains("the first panic") && text.contains("the second panic"), "{text}");
    text
}

#[test]
fn a_panic_beside_another_threads_unwinding_has_no_backtrace_that_was_not_asked_for() {
    for backtrace in [None, Some("0")] {
        let text = text("default", backtrace);
        assert!(!text.contains("stack backtrace"), "{text}");
        assert!(text.contains("panic_text.rs"), "{text}");
    }
    assert!(text("default", Some("1")).contains("stack backtrace"));
}

#[test]
fn a_hook_of_the_program_is_called_for_every_panic() {
    assert_eq!(text("own", Some("0")).matches("the program's hook").count(), 2);
}
