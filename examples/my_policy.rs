//! A policy of one's own: polls for what is urgent and for sources whose waits have been short; everything else sleeps
//! in the kernel.
//!
//!   cargo run --example my_policy

use std::sync::Arc;
use std::time::Duration;

use pioman::policy::{Asker, Choice, Method, Policy, Request, Snapshot};
use pioman::{Manager, Priority};

struct MyPolicy;

impl Policy for MyPolicy {
    fn name(&self) -> &str {
        "mine"
    }

    fn choose(&self, request: &Request<'_>, load: &Snapshot) -> Choice {
        let spin = request.history.best_spin(load.wake_up, Duration::from_micros(30)).time;
        match request.asker {
            Asker::Leaving => Choice::new(Method::Block, "nobody else looks"),
            _ if request.priority == Priority::High => Choice::new(Method::Poll, "urgent"),
            _ if !load.loaded && request.waited < spin => {
                Choice::new(Method::Poll, "waits are short here").again(spin - request.waited)
            }
            _ => Choice::new(Method::Block, "waits are long, or the machine is full"),
        }
    }
}

fn main() -> Result<(), pioman::Error> {
    let manager = Manager::builder().policy(Arc::new(MyPolicy));
    let runtime = pioman::Runtime::build(manager, marcel::Runtime::builder())?;
    // Threads that wait here, by newmad or `pioman::net`, wait as `MyPolicy` says.
    print!("{}", runtime.manager().explain());
    Ok(())
}
