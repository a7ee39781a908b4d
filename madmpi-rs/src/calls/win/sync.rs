//! Synchronisation.

use core::ffi::c_int;

use super::{on, on_lent};
use crate::abi::*;
use crate::args::{Out, out};
use crate::calls::entry::mpi;
use crate::group;
use crate::win::{active, sync};

mpi! {
    fn MPI_Win_fence(assert: c_int, win: MPI_Win) { on(win, |win| sync::fence(win, assert)) }

    fn MPI_Win_post(group: MPI_Group, assert: c_int, win: MPI_Win) {
        on(win, |win| active::post(win, &group::get(group)?.share(), assert))
    }

    fn MPI_Win_start(group: MPI_Group, assert: c_int, win: MPI_Win) {
        on(win, |win| active::start(win, &group::get(group)?.share(), assert))
    }

    fn MPI_Win_complete(win: MPI_Win) { on(win, active::complete) }

    fn MPI_Win_wait(win: MPI_Win) { on(win, active::wait) }

    fn MPI_Win_test(win: MPI_Win, flag: Out<c_int>) {
        on(win, |win| {
            flag.check("flag")?;
            out(flag, "flag", c_int::from(active::test(win)?))
        })
    }

    fn MPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) {
        on_lent(win, |win| sync::lock(win, lock_type, rank, assert))
    }

    fn MPI_Win_unlock(rank: c_int, win: MPI_Win) { on_lent(win, |win| sync::unlock(win, rank)) }

    fn MPI_Win_lock_all(assert: c_int, win: MPI_Win) { on_lent(win, |win| sync::lock_all(win, assert)) }

    fn MPI_Win_unlock_all(win: MPI_Win) { on_lent(win, sync::unlock_all) }

    fn MPI_Win_flush(rank: c_int, win: MPI_Win) { on_lent(win, |win| sync::flush(win, Some(rank))) }

    fn MPI_Win_flush_all(win: MPI_Win) { on_lent(win, |win| sync::flush(win, None)) }

    fn MPI_Win_flush_local(rank: c_int, win: MPI_Win) { on_lent(win, |win| sync::flush_local(win, Some(rank))) }

    fn MPI_Win_flush_local_all(win: MPI_Win) { on_lent(win, |win| sync::flush_local(win, None)) }

    fn MPI_Win_sync(win: MPI_Win) {
        on_lent(win, |win| {
            sync::sync(win);
            Ok(())
        })
    }
}
