//! MPI from green threads: a blocking call blocks its thread only. One virtual processor runs all threads: if a call
//! blocked that, no thread could send the awaited message.

use core::ffi::{c_int, c_void};
use std::ptr::null_mut;

use madmpi as _; // the functions below are its

const WORLD: usize = 0x101;
const INT: usize = 0x209;
const IGNORE: *mut c_void = null_mut();

unsafe extern "C" {
    safe fn MPI_Init_thread(
        argc: *mut c_int,
        argv: *mut c_void,
        wanted: c_int,
        got: &mut c_int,
    ) -> c_int;
    safe fn MPI_Finalize() -> c_int;
    fn MPI_Send(
        at: *const c_int,
        count: c_int,
        ty: usize,
        to: c_int,
        tag: c_int,
        comm: usize,
    ) -> c_int;
    fn MPI_Ssend(
        at: *const c_int,
        count: c_int,
        ty: usize,
        to: c_int,
        tag: c_int,
        comm: usize,
    ) -> c_int;
    fn MPI_Recv(
        at: *mut c_int,
        count: c_int,
        ty: usize,
        from: c_int,
        tag: c_int,
        comm: usize,
        status: *mut c_void,
    ) -> c_int;
}

fn recv(tag: c_int) -> c_int {
    let mut value = 0;
    // SAFETY: a place for one int.
    let code = unsafe { MPI_Recv(&raw mut value, 1, INT, 0, tag, WORLD, IGNORE) };
    assert_eq!(code, 0);
    value
}

#[test]
fn a_blocking_call_blocks_its_green_thread_only() {
    let runtime = marcel::Runtime::builder().vps(1).build().unwrap();
    runtime.run(|| {
        let mut provided = 0;
        assert_eq!(MPI_Init_thread(null_mut(), null_mut(), 4096, &mut provided), 0);
        assert_eq!(provided, 4096);
        // Every receiver blocks before its sender has begun.
        let receivers: Vec<_> = (0..20).map(|tag| marcel::spawn(move || recv(tag))).collect();
        marcel::yield_now();
        let senders: Vec<_> = (0..20)
            .map(|tag: c_int| {
                marcel::spawn(move || {
                    let value = tag * 3;
                    // SAFETY: one int, which stays during the call. Every second one waits for its receive.
                    let code = unsafe {
                        match tag % 2 {
                            0 => MPI_Send(&raw const value, 1, INT, 0, tag, WORLD),
                            _ => MPI_Ssend(&raw const value, 1, INT, 0, tag, WORLD),
                        }
                    };
                    assert_eq!(code, 0);
                })
            })
            .collect();
        for (tag, receiver) in (0..).zip(receivers) {
            assert_eq!(receiver.join().unwrap(), tag * 3);
        }
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(MPI_Finalize(), 0);
    });
}
