//! Names, groups, hints, attributes and error handlers of windows.

use core::ffi::{c_int, c_void};

use super::on;
use crate::abi::*;
use crate::args::{Out, Text, TextOut, out};
use crate::attribute::{Kind, keyval};
use crate::calls::attribute::give;
use crate::calls::entry::mpi;
use crate::calls::errhandler::called;
use crate::errhandler::{self, invoke};
use crate::win::attributes::{self, is_standard};
use crate::{group, info, win};

mpi! {
    fn MPI_Win_get_group(win: MPI_Win, group: Out<MPI_Group>) {
        on(win, |win| group.made("group", MPI_GROUP_NULL, || group::handle(win.comm.group.clone())))
    }

    fn MPI_Win_set_name(win: MPI_Win, win_name: Text) {
        on(win, |win| {
            win.settings().name = win_name.object_name("win_name")?.to_vec();
            Ok(())
        })
    }

    fn MPI_Win_get_name(win: MPI_Win, win_name: TextOut<{ MPI_MAX_OBJECT_NAME }>, resultlen: Out<c_int>) {
        let name = match win {
            MPI_WIN_NULL => b"MPI_WIN_NULL".to_vec(),
            _ => win::get(win)?.settings().name.clone(),
        };
        out(resultlen, "resultlen", win_name.put(&name, "win_name")?)
    }

    fn MPI_Win_set_info(win: MPI_Win, info: MPI_Info) {
        on(win, |win| {
            info::get(info)?;
            attributes::take(&mut win.settings().info, info)
        })
    }

    fn MPI_Win_get_info(win: MPI_Win, info_used: Out<MPI_Info>) {
        on(win, |win| {
            let entries = win.settings().info.clone();
            info_used.made("info_used", MPI_INFO_NULL, || info::handle(entries))
        })
    }

    fn MPI_Win_set_attr(win: MPI_Win, win_keyval: c_int, attribute_val: *mut c_void) {
        on(win, |win| {
            let keyval = keyval(win_keyval, Kind::Win)?;
            win.attributes.set(win.handle().0, keyval, attribute_val as usize)
        })
    }

    fn MPI_Win_get_attr(win: MPI_Win, win_keyval: c_int, attribute_val: Out<usize>, flag: Out<c_int>) {
        on(win, |win| {
            let value = if is_standard(win_keyval) {
                win.standard(win_keyval)
            } else {
                win.attributes.get(&keyval(win_keyval, Kind::Win)?)
            };
            give(value, attribute_val, flag)
        })
    }

    fn MPI_Win_delete_attr(win: MPI_Win, win_keyval: c_int) {
        on(win, |win| {
            win.attributes.delete(win.handle().0, &keyval(win_keyval, Kind::Win)?)
        })
    }

    fn MPI_Win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) {
        on(win, |win| {
            win.set_errhandler(errhandler::get(errhandler, errhandler::Kind::Win)?);
            Ok(())
        })
    }

    fn MPI_Win_get_errhandler(win: MPI_Win, errhandler: Out<MPI_Errhandler>) {
        on(win, |win| errhandler.made("errhandler", MPI_ERRHANDLER_NULL, || win.errhandler().handle()))
    }

    fn MPI_Win_call_errhandler(win: MPI_Win, errorcode: c_int) {
        let win = win::get(win)?;
        invoke(&win.errhandler(), win.handle().0, errorcode, &called(errorcode));
        Ok(())
    }
}
