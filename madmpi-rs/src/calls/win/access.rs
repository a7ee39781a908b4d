//! Put, get and accumulations.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use super::on_lent;
use crate::abi::*;
use crate::args::Out;
use crate::calls::entry::mpi;
use crate::datatype::choice;
use crate::error::Fault;
use crate::request::{self, SENT};
use crate::win::Win;
use crate::win::access::{AccessRequest, Accumulation, Pending, Where, accumulate, get, put};

/// The program's request for an access.
fn request(win: &Win, pending: Pending) -> Result<MPI_Request, Fault> {
    match pending {
        Some(access) => {
            request::new_operation(Arc::new(AccessRequest { access, win: win.handle() }))
        }
        None => Ok(SENT),
    }
}

macro_rules! at {
    ($rank:ident, $disp:ident, $count:expr, $datatype:ident) => {
        Where { rank: $rank, disp: $disp, count: i64::from($count), datatype: $datatype }
    };
}

/// The functions of an access: without and with a request, each for small and for large counts. `call` has the window, and
/// whether there is a request.
macro_rules! accesses {
    ($($name:ident $large:ident $rname:ident $rlarge:ident ($($arg:ident : $type:ty),* $(,)?) $call:expr;)*) => {$(
        mpi! {
            fn $name / $large ($($arg: $type,)* win: MPI_Win) {
                on_lent(win, |win| $call(win, false).map(drop))
            }

            fn $rname / $rlarge ($($arg: $type,)* win: MPI_Win, request_: Out<MPI_Request>) {
                on_lent(win, |win| request_.make(|| request(win, $call(win, true)?)))
            }
        }
    )*};
}

accesses! {
    MPI_Put MPI_Put_c MPI_Rput MPI_Rput_c (
        origin_addr: *const c_void, origin_count: N, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: N, target_datatype: MPI_Datatype,
    ) |win, asked| {
        let from = choice!(origin_addr, origin_count, origin_datatype);
        put(win, from, &at!(target_rank, target_disp, target_count, target_datatype), asked)
    };

    MPI_Get MPI_Get_c MPI_Rget MPI_Rget_c (
        origin_addr: *mut c_void, origin_count: N, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: N, target_datatype: MPI_Datatype,
    ) |win, asked| {
        let into = choice!(origin_addr, origin_count, origin_datatype);
        get(win, into, &at!(target_rank, target_disp, target_count, target_datatype), asked)
    };

    MPI_Accumulate MPI_Accumulate_c MPI_Raccumulate MPI_Raccumulate_c (
        origin_addr: *const c_void, origin_count: N, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: N, target_datatype: MPI_Datatype, op: MPI_Op,
    ) |win, asked| {
        let from = choice!(origin_addr, origin_count, origin_datatype);
        let what = Accumulation { from, result: None, op, compare: None, single: false };
        accumulate(win, what, &at!(target_rank, target_disp, target_count, target_datatype), asked)
    };

    MPI_Get_accumulate MPI_Get_accumulate_c MPI_Rget_accumulate MPI_Rget_accumulate_c (
        origin_addr: *const c_void, origin_count: N, origin_datatype: MPI_Datatype, result_addr: *mut c_void,
        result_count: N, result_datatype: MPI_Datatype, target_rank: c_int, target_disp: MPI_Aint,
        target_count: N, target_datatype: MPI_Datatype, op: MPI_Op,
    ) |win, asked| {
        let from = choice!(origin_addr, origin_count, origin_datatype);
        let result = Some(choice!(result_addr, result_count, result_datatype));
        let what = Accumulation { from, result, op, compare: None, single: false };
        accumulate(win, what, &at!(target_rank, target_disp, target_count, target_datatype), asked)
    };
}

mpi! {
    fn MPI_Fetch_and_op(
        origin_addr: *const c_void, result_addr: *mut c_void, datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, op: MPI_Op, win: MPI_Win,
    ) {
        let from = choice!(origin_addr, 1, datatype);
        let result = Some(choice!(result_addr, 1, datatype));
        let at = at!(target_rank, target_disp, 1, datatype);
        let what = Accumulation { from, result, op, compare: None, single: true };
        on_lent(win, |win| accumulate(win, what, &at, false).map(drop))
    }

    fn MPI_Compare_and_swap(
        origin_addr: *const c_void, compare_addr: *const c_void, result_addr: *mut c_void, datatype: MPI_Datatype,
        target_rank: c_int, target_disp: MPI_Aint, win: MPI_Win,
    ) {
        let from = choice!(origin_addr, 1, datatype);
        let compare = Some(choice!(compare_addr, 1, datatype));
        let result = Some(choice!(result_addr, 1, datatype));
        let at = at!(target_rank, target_disp, 1, datatype);
        let what = Accumulation { from, result, op: MPI_REPLACE, compare, single: true };
        on_lent(win, |win| accumulate(win, what, &at, false).map(drop))
    }
}
