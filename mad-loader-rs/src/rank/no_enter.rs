//! In place of `enter` on machines that it is not written for: [`crate::check`] refuses every program there.

pub(super) unsafe extern "C-unwind" fn enter(
    _: usize,
    _: *const usize,
    _: usize,
    _: *mut usize,
) -> i32 {
    unreachable!("no program is accepted on this machine")
}

pub(super) unsafe extern "C" fn leave(_: usize, _: i32) -> ! {
    unreachable!("no program is accepted on this machine")
}
