//! The C library's functions for rounding, and one of their modes.

#[cfg(target_arch = "x86_64")]
pub(crate) const UPWARD: i32 = 0x800;
#[cfg(target_arch = "aarch64")]
pub(crate) const UPWARD: i32 = 0x40_0000;

unsafe extern "C" {
    pub(crate) safe fn fesetround(mode: i32) -> i32;
    pub(crate) safe fn fegetround() -> i32;
}
