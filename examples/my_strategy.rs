//! A strategy of one's own: short messages first, and large ones always over the first rail.
//!
//!   cargo run --release --example my_strategy

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use newmad::strategy::{Large, Packet, Rail, Strategy, Waiting};

static ASKED: AtomicU32 = AtomicU32::new(0);

struct ShortFirst;

impl Strategy for ShortFirst {
    fn name(&self) -> &str {
        "short-first"
    }

    fn fill(&self, waiting: &Waiting<'_>, packet: &mut Packet<'_>) {
        ASKED.fetch_add(1, Relaxed);
        for limit in [64, 1024, usize::MAX] {
            for (index, message) in waiting.iter().enumerate() {
                if message.len <= limit {
                    packet.take(index); // refuses what does not fit or must not overtake
                }
            }
        }
    }

    fn share(&self, large: &Large, _: &[Rail], shares: &mut [usize]) {
        shares[0] = large.len;
    }
}

fn main() -> Result<(), newmad::Error> {
    // Two ranks in this process; between several, `Session::builder().strategy(..)` would do.
    let world = newmad::Session::local_world(2, &pioman::Manager::builder().build()?)?;
    world[0].set_strategy(1, Arc::new(ShortFirst))?;
    // More than the track takes at once: the rest waits, and the strategy is asked.
    let len = |tag: u64| if tag.is_multiple_of(3) { 2000 } else { 8 };
    let sends: Vec<_> = (0..300).map(|tag| world[0].isend(1, tag, vec![7; len(tag)])).collect();
    for tag in 0..300 {
        assert_eq!(world[1].recv(0, tag, &mut [0; 2000])?.len, len(tag));
    }
    sends.into_iter().try_for_each(|send| send?.wait().map(drop))?;
    println!("300 messages; the strategy was asked {} times", ASKED.load(Relaxed));
    Ok(())
}
