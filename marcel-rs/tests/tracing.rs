//! The events of the feature `tracing`: `cargo test -p mad-marcel --features tracing --test tracing`.
#![cfg(feature = "tracing")]

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use marcel::Runtime;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps every event of marcel: its name and its fields.
struct Log;

type Fields = HashMap<&'static str, String>;

static SEEN: Mutex<Vec<(&'static str, Fields)>> = Mutex::new(Vec::new());

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "marcel"
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        SEEN.lock().unwrap().push((event.metadata().name(), fields));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Id::from_u64(NEXT.fetch_add(1, Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_thread_s_life_is_told_step_by_step() {
    tracing::subscriber::set_global_default(Log).unwrap();
    let runtime = Runtime::builder().build().unwrap();
    runtime.run(|| {
        let subject = marcel::Builder::new().name("subject");
        let subject = subject.spawn(|| marcel::sleep(Duration::from_millis(20))).unwrap();
        subject.join().unwrap();
    });
    drop(runtime);
    let seen = SEEN.lock().unwrap();
    let spawn = seen.iter().position(|(event, fields)| {
        *event == "spawn" && fields.get("name").is_some_and(|name| name.contains("subject"))
    });
    let spawn = spawn.unwrap_or_else(|| panic!("{seen:?}"));
    let number = &seen[spawn].1["thread"];
    let of_subject = seen[spawn..].iter().filter(|(_, f)| f.get("thread") == Some(number));
    let told: Vec<_> = of_subject.map(|(event, _)| *event).filter(|e| *e != "steal").collect();
    assert!(told.starts_with(&["spawn", "start", "park"]) && told.contains(&"end"), "{told:?}");
    let reasons: Vec<_> =
        seen.iter().filter(|(event, _)| *event == "park").map(|(_, f)| &f["reason"]).collect();
    assert!(reasons.iter().any(|r| *r == "sleep") && reasons.iter().any(|r| *r == "join"));
    for event in ["sleep", "wake", "unpark"] {
        assert!(seen.iter().any(|(e, _)| *e == event), "no {event} in {seen:?}");
    }
}
