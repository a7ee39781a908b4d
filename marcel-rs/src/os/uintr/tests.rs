//! The stub and the instructions under the emulator: what they do, never how fast.

use std::arch::asm;
use std::cell::{Cell, RefCell};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::mpsc::channel;

use super::calls::{Calls, Receiver};
use super::emulator::{self, EXECUTED, Emulated};
use super::stub;
use crate::os::user_interrupts::Usable;

thread_local! {
    static SEEN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static HANDLED: Cell<u64> = const { Cell::new(0) };
    static STACK: Cell<usize> = const { Cell::new(0) };
}

fn note(vector: u64) {
    SEEN.with_borrow_mut(|seen| seen.push(vector));
    let here = 0u8;
    STACK.set((&raw const here).addr());
}

/// Leaves nothing of the vector and floating-point state as it was.
fn spoil(_: u64) {
    HANDLED.set(HANDLED.get() + 1);
    // SAFETY: everything that is changed is named.
    unsafe {
        asm!(
            "pcmpeqd xmm0, xmm0", "pcmpeqd xmm1, xmm1", "pcmpeqd xmm7, xmm7", "pcmpeqd xmm15, xmm15",
            "fldpi", "fstp st(0)",
            "std", "cld",
            out("xmm0") _, out("xmm1") _, out("xmm7") _, out("xmm15") _, out("st(7)") _, out("st(0)") _,
        );
        if std::is_x86_feature_detected!("avx2") {
            asm!(
                "vpcmpeqd ymm2, ymm2, ymm2", "vpcmpeqd ymm14, ymm14, ymm14",
                out("ymm2") _, out("ymm14") _,
            );
        }
    }
}

const KERNEL: Emulated = Emulated { lowest: false };

fn receive(vector: u64, handler: fn(u64)) -> (Usable, Receiver<Emulated>) {
    receive_from(KERNEL, vector, handler)
}

fn receive_from(kernel: Emulated, vector: u64, handler: fn(u64)) -> (Usable, Receiver<Emulated>) {
    let usable = emulator::start();
    // SAFETY: the handlers of these tests touch thread-locals that are made, and the stack.
    unsafe { stub::set_handler(vector as usize, handler) };
    (usable, Receiver::register(usable, kernel, vector).unwrap())
}

/// A second vector of the calling thread: its index.
fn also(vector: u64) -> u64 {
    // SAFETY: as above.
    unsafe { stub::set_handler(vector as usize, note) };
    let fd = KERNEL.vector_fd(vector).unwrap();
    KERNEL.register_sender(fd.as_raw_fd()).unwrap()
}

#[test]
fn the_flag_is_set_cleared_read_and_restored() {
    if !emulator::is_possible() {
        return;
    }
    let (usable, receiver) = receive(5, note);
    assert!(usable.is_unmasked());
    usable.mask();
    assert!(!usable.is_unmasked());
    drop(usable.masked());
    assert!(!usable.is_unmasked(), "as it was before");
    usable.unmask();
    {
        let _outer = usable.masked();
        drop(usable.masked());
        assert!(!usable.is_unmasked(), "as it was before");
    }
    assert!(usable.is_unmasked());
    drop(receiver);
    assert!(!usable.is_unmasked());
    assert!(EXECUTED.iter().skip(1).take(3).all(|count| count.load(SeqCst) > 0));
}

#[test]
fn vectors_are_delivered_once_the_highest_first_when_they_are_unmasked() {
    if !emulator::is_possible() {
        return;
    }
    SEEN.with_borrow_mut(|seen| seen.reserve(16));
    let (usable, receiver) = receive(6, note);
    let six = KERNEL.register_sender(receiver.vector.as_raw_fd()).unwrap();
    let (eight, forty) = (also(8), also(40));
    let masked = usable.masked();
    for index in [six, eight, six, forty] {
        // SAFETY: indices of the kernel's.
        unsafe { usable.send(index) };
    }
    assert!(SEEN.with_borrow(Vec::is_empty));
    drop(masked);
    assert_eq!(SEEN.take(), [40, 8, 6]);
    assert_eq!(emulator::left(), (false, 0));
    assert!(usable.is_unmasked(), "uiret sets the flag");
    SEEN.with_borrow_mut(|seen| seen.reserve(1));
    // SAFETY: as above.
    unsafe { usable.send(six) };
    assert_eq!(SEEN.take(), [6]);
    drop(receiver);
}

#[test]
fn the_handler_has_a_stack_of_its_own_whichever_end_the_kernel_takes() {
    if !emulator::is_possible() {
        return;
    }
    for lowest in [false, true] {
        SEEN.with_borrow_mut(|seen| seen.reserve(16));
        let (usable, receiver) = receive_from(Emulated { lowest }, 9, note);
        let index = KERNEL.register_sender(receiver.vector.as_raw_fd()).unwrap();
        // SAFETY: the kernel's index.
        unsafe { usable.send(index) };
        assert_eq!(SEEN.take(), [9]);
        let (area, bytes) = receiver.stack_area();
        let (low, high) = if lowest { (area - bytes, area) } else { (area, area + bytes) };
        assert!((low..high).contains(&(STACK.get() as u64)), "lowest {lowest}");
    }
}

/// A receiver computes with all kinds of registers while another thread sends all the time.
#[test]
fn what_is_interrupted_keeps_its_registers() {
    if !emulator::is_possible() {
        return;
    }
    let over = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    let (give, given) = channel();
    std::thread::scope(|scope| {
        let (over, sent) = (&over, &sent);
        scope.spawn(move || {
            let (usable, receiver) = receive(11, spoil);
            give.send(receiver.vector.as_raw_fd()).unwrap();
            let mut rounds = 0u64;
            while !over.load(SeqCst) {
                let (mut a, mut b, mut c) = (1.5f64, [0u64; 8], 7u64);
                for i in 1..2000u64 {
                    a = a * 1.000_1 + 0.25 / i as f64;
                    b.iter_mut().for_each(|x| *x = x.wrapping_mul(31).wrapping_add(i ^ c));
                    c = c.rotate_left(5) ^ i;
                }
                let again = |mut a: f64, mut b: [u64; 8], mut c: u64| {
                    for i in 1..2000u64 {
                        a = a * 1.000_1 + 0.25 / i as f64;
                        b.iter_mut().for_each(|x| *x = x.wrapping_mul(31).wrapping_add(i ^ c));
                        c = c.rotate_left(5) ^ i;
                    }
                    (a.to_bits(), b, c)
                };
                assert_eq!((a.to_bits(), b, c), again(1.5, [0; 8], 7));
                // Allocates, and is interrupted in the allocator.
                let list: Vec<u64> = (0..rounds % 100).collect();
                assert_eq!(
                    list.iter().sum::<u64>(),
                    (rounds % 100) * (rounds % 100).saturating_sub(1) / 2
                );
                rounds += 1;
            }
            let masked = usable.masked();
            assert_eq!(emulator::left().1, 0, "all that was sent was delivered");
            drop(masked);
            let handled = HANDLED.get();
            assert!(handled > 0 && handled <= sent.load(SeqCst), "{handled}");
            drop(receiver);
        });
        let usable = emulator::start();
        let index = KERNEL.register_sender(given.recv().unwrap()).unwrap();
        for round in 0..20_000u32 {
            // SAFETY: the kernel's index.
            unsafe { usable.send(index) };
            sent.fetch_add(1, SeqCst);
            // Now and then a burst, which coalesces.
            for _ in 0..round % 64 * 4 {
                std::hint::spin_loop();
            }
        }
        // The last one has arrived when the receiver ends its round.
        std::thread::sleep(std::time::Duration::from_millis(20));
        over.store(true, SeqCst);
    });
}

/// The direction flag, carry and the rounding mode.
#[test]
fn what_is_interrupted_keeps_its_flags() {
    if !emulator::is_possible() {
        return;
    }
    let (usable, receiver) = receive(12, spoil);
    let index = KERNEL.register_sender(receiver.vector.as_raw_fd()).unwrap();
    let (flags, mode): (u64, u32);
    let mut towards_zero = 0x7f80u32;
    // SAFETY: the kernel's index; flags and mode are put back.
    unsafe {
        asm!(
            "ldmxcsr [{mode}]",
            "std", "stc",
            "senduipi {index}",
            "pushfq", "pop {flags}",
            "cld",
            "stmxcsr [{mode}]",
            mode = in(reg) &raw mut towards_zero,
            index = in(reg) index,
            flags = out(reg) flags,
        );
        mode = towards_zero;
        let usual = 0x1f80u32;
        asm!("ldmxcsr [{}]", in(reg) &raw const usual);
    }
    assert_eq!((flags & 0x401, mode & 0x6000), (0x401, 0x6000));
    assert_eq!(HANDLED.get(), 1);
    drop((usable, receiver));
}

#[test]
fn this_machine_is_asked_without_harm() {
    use super::detect::{Absent, Here, find};
    // With the bit, the emulator of the other tests could take the trap.
    if emulator::is_possible() {
        assert_eq!(find(&Here("471,472,473,474,478")).err(), Some(Absent::Processor));
    }
}
