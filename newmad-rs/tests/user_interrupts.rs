//! A process that computes is interrupted without the kernel: user interrupts, under marcel's emulator. Functional only:
//! **never run on hardware**, and no time that this takes means anything.
#![cfg(target_arch = "x86_64")]

use std::time::{Duration, Instant};

use marcel::Mode;
use marcel::plumbing::user_interrupts;
use newmad::{SendOptions, Session};
use pioman::{Manager, Point, Runtime};

#[test]
fn a_rank_that_computes_is_interrupted_by_the_processor() {
    if !user_interrupts::emulate() {
        return;
    }
    let manager = Manager::builder().mode(Mode::Mono);
    let runtime = Runtime::build(manager, marcel::Runtime::builder()).unwrap();
    let mut world = Session::local_world(2, runtime.manager()).unwrap();
    let (b, a) = (world.pop().unwrap(), world.pop().unwrap());
    let hits = || runtime.manager().hits(Point::Interrupt);
    let found = runtime.run(|| {
        let start = Instant::now();
        while hits() == 0 && start.elapsed() < Duration::from_secs(60) {
            let receive = b.irecv(0, 1, vec![0; 100]).unwrap();
            let (a, data) = (a.clone(), vec![7; 100]);
            let sender = std::thread::spawn(move || {
                // Its receiver has to answer.
                let send = a.isend_with(1, 1, data, SendOptions::new().sync()).unwrap();
                // A wait would poll for both ranks, which have one manager.
                std::thread::sleep(Duration::from_millis(30));
                send.wait().unwrap();
            });
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            assert_eq!(receive.wait().unwrap().0, [7; 100]);
            sender.join().unwrap();
        }
        hits()
    });
    assert!(found > 0 && user_interrupts::emulated_sends() > 0);
    let ends: Vec<_> = [a, b].map(|session| std::thread::spawn(move || session.close())).into();
    ends.into_iter().for_each(|end| end.join().unwrap().unwrap());
}
