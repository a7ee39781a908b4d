//! What is used of `libpmix.so.2`, opened at run time: its functions, and the C structures that they take.
//!
//! Types as in `pmix.h` and `pmix_common.h`; sizes and offsets are the same in versions 4 and 5 of the library (a test
//! compares them with the headers that are installed). The standard lets no structure of these change.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::PathBuf;

use libloading::Library;

/// The name under which versions 2 to 6 are installed.
const NAME: &str = "libpmix.so.2";

pub(super) const NSPACE: usize = 256;

/// `PMIX_SUCCESS`.
pub(super) const SUCCESS: c_int = 0;
/// `PMIX_OPERATION_SUCCEEDED`: done at once, the callback is not called.
pub(super) const DONE: c_int = -157;
/// `PMIX_RANK_WILDCARD`: what concerns all ranks.
pub(super) const ALL_RANKS: u32 = u32::MAX - 1;
/// `PMIX_GLOBAL`: for all processes on every machine.
pub(super) const GLOBAL: u8 = 3;
/// `PMIX_JOB_SIZE`.
pub(super) const JOB_SIZE: &str = "pmix.job.size";
/// `PMIX_APPNUM`: which of the programs that were started together.
pub(super) const PROGRAM: &str = "pmix.appnum";
/// `PMIX_UNIV_SIZE`.
pub(super) const UNIVERSE: &str = "pmix.univ.size";
/// `PMIX_COLLECT_DATA`: a fence brings what was put to the servers of all machines.
pub(super) const COLLECT: &CStr = c"pmix.collect";
/// `PMIX_BOOL`, `PMIX_STRING` and `PMIX_UINT32`.
pub(super) const BOOL: u16 = 1;
pub(super) const STRING: u16 = 3;
pub(super) const UINT32: u16 = 14;

/// `pmix_proc_t`.
#[repr(C)]
pub(super) struct Proc {
    pub(super) nspace: [c_char; NSPACE],
    pub(super) rank: u32,
}

/// The members of `pmix_value_t`'s union that are used, and its size.
#[repr(C)]
pub(super) union Data {
    pub(super) string: *const c_char,
    pub(super) uint32: u32,
    /// The largest is `pmix_envar_t`: two pointers and a character.
    pub(super) all: [u64; 3],
}

/// `pmix_value_t`.
#[repr(C)]
pub(super) struct Value {
    pub(super) kind: u16,
    pub(super) data: Data,
}

const KEY: usize = 512;

/// `pmix_info_t` that says yes: the name, flags, and a `pmix_value_t` without pointers.
#[repr(C)]
pub(super) struct Info {
    key: [c_char; KEY],
    flags: u32,
    value: Yes,
}

#[repr(C)]
struct Yes {
    kind: u16,
    data: Flag,
}

#[repr(C)]
union Flag {
    flag: bool,
    all: [u64; 3],
}

impl Info {
    pub(super) fn yes(name: &CStr) -> Info {
        let mut key = [0; KEY];
        key.iter_mut().zip(name.to_bytes()).for_each(|(to, &from)| *to = from as c_char);
        Info { key, flags: 0, value: Yes { kind: BOOL, data: Flag { flag: true } } }
    }
}

/// `pmix_app_t`: a program that is to be started. Lists end with a null pointer.
#[repr(C)]
pub(super) struct App {
    pub(super) program: *const c_char,
    pub(super) args: *const *const c_char,
    pub(super) env: *const *const c_char,
    pub(super) folder: *const c_char,
    pub(super) processes: c_int,
    pub(super) info: *const Info,
    pub(super) infos: usize,
}

/// `pmix_spawn_cbfunc_t`: the status, the name of the new job, what the caller gave.
pub(super) type Spawned = unsafe extern "C" fn(c_int, *const c_char, *mut c_void);

/// `pmix_op_cbfunc_t`.
pub(super) type Ended = unsafe extern "C" fn(c_int, *mut c_void);
/// `pmix_value_cbfunc_t`.
pub(super) type Got = unsafe extern "C" fn(c_int, *const Value, *mut c_void);

/// See the module.
pub(super) struct Pmix {
    pub(super) init: unsafe extern "C" fn(*mut Proc, *const Info, usize) -> c_int,
    pub(super) put: unsafe extern "C" fn(u8, *const c_char, *const Value) -> c_int,
    pub(super) commit: unsafe extern "C" fn() -> c_int,
    pub(super) fence:
        unsafe extern "C" fn(*const Proc, usize, *const Info, usize, Ended, *mut c_void) -> c_int,
    pub(super) get: unsafe extern "C" fn(
        *const Proc,
        *const c_char,
        *const Info,
        usize,
        Got,
        *mut c_void,
    ) -> c_int,
    pub(super) spawn:
        unsafe extern "C" fn(*const Info, usize, *const App, usize, Spawned, *mut c_void) -> c_int,
    pub(super) finalize: unsafe extern "C" fn(*const Info, usize) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// Where to look: the library of the process manager itself first, since its server understands no other as well
/// (5.0.11 serves 4.2.2, but writes errors about some of what it asks); then where the system's libraries are.
fn places() -> Vec<PathBuf> {
    let prefixes = ["PMIX_PREFIX", "PMIX_INSTALL_PREFIX"].iter().filter_map(std::env::var_os);
    let inside = ["lib", "lib64", "lib/openmpi"];
    let named =
        prefixes.flat_map(|prefix| inside.map(|lib| PathBuf::from(&prefix).join(lib).join(NAME)));
    let maps = format!("/proc/{}/maps", std::os::unix::process::parent_id());
    let maps = std::fs::read_to_string(maps).unwrap_or_default();
    let places: Vec<_> =
        mapped(&maps).into_iter().chain(named).filter(|path| path.exists()).collect();
    places.into_iter().chain([PathBuf::from(NAME)]).collect()
}

/// The library that a process with these mappings of memory has loaded: the process manager's, which has started this
/// process.
fn mapped(maps: &str) -> Option<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths
        .filter(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with(NAME)))
        .map(PathBuf::from)
        .next()
}

/// Opens the library, for ever: it has threads, and what it has loaded in its turn may not bear to be unloaded.
pub(super) fn open() -> Result<Pmix, String> {
    let mut why = String::new();
    for place in places() {
        // SAFETY: initialisers of this library, and of those that it needs, set up their own data.
        match unsafe { Library::new(&place) } {
            Ok(library) => return functions(&ManuallyDrop::new(library)),
            Err(e) => why = e.source().map_or_else(|| e.to_string(), ToString::to_string),
        }
    }
    let missing =
        "it is part of the process manager, or to be had from the system: apt install libpmix2";
    Err(format!("{NAME} cannot be opened ({why}): {missing}"))
}

fn functions(library: &Library) -> Result<Pmix, String> {
    fn function<T: Copy>(library: &Library, name: &CStr) -> Result<T, String> {
        // SAFETY: every caller below asks for the type that pmix.h declares for the name.
        let found = unsafe { library.get::<T>(name) };
        let why = |_| format!("{NAME} has no function {}", name.to_string_lossy());
        found.map(|function| *function).map_err(why)
    }
    Ok(Pmix {
        init: function(library, c"PMIx_Init")?,
        put: function(library, c"PMIx_Put")?,
        commit: function(library, c"PMIx_Commit")?,
        fence: function(library, c"PMIx_Fence_nb")?,
        get: function(library, c"PMIx_Get_nb")?,
        spawn: function(library, c"PMIx_Spawn_nb")?,
        finalize: function(library, c"PMIx_Finalize")?,
        error_string: function(library, c"PMIx_Error_string")?,
    })
}

impl Pmix {
    /// What a status means.
    pub(super) fn words(&self, status: c_int) -> String {
        // SAFETY: any status is allowed; what comes back is a constant C string.
        let text = unsafe { (self.error_string)(status) };
        if text.is_null() {
            return format!("status {status}");
        }
        // SAFETY: as above, and it is not null.
        let text = unsafe { CStr::from_ptr(text) };
        format!("{} ({status})", text.to_string_lossy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};
    use std::process::Command;

    #[test]
    fn the_process_managers_library_is_seen_in_its_memory() {
        let maps = "7f00-7f01 r--p 00000000 fe:00 12   /usr/lib/libpmix_tool.so.1\n\
                    7f01-7f02 r-xp 00000000 fe:00 13   /opt/with blank/lib/libpmix.so.2.13.2\n\
                    7f02-7f03 rw-p 00000000 00:00 0    [heap]\n";
        assert_eq!(mapped(maps), Some(PathBuf::from("/opt/with blank/lib/libpmix.so.2.13.2")));
        assert_eq!(mapped("7f02-7f03 rw-p 00000000 00:00 0\n"), None);
    }

    #[test]
    fn the_structures_are_those_of_the_installed_headers() {
        let dir = std::env::temp_dir().join(format!("newmad-pmix-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (source, program) = (dir.join("probe.c"), dir.join("probe"));
        std::fs::write(
            &source,
            r#"#include <stddef.h>
            #include <stdio.h>
            #include <pmix.h>
            int main(void) {
                printf("%zu %zu %zu %zu %zu %d %d %u %d %d %d %s %zu %zu %zu %s %s %zu %zu %zu %s %d",
                    sizeof(pmix_proc_t), offsetof(pmix_proc_t, rank),
                    sizeof(pmix_value_t), offsetof(pmix_value_t, data), sizeof(((pmix_value_t *)0)->type),
                    PMIX_SUCCESS, PMIX_OPERATION_SUCCEEDED, (unsigned)(PMIX_RANK_WILDCARD), PMIX_GLOBAL,
                    PMIX_STRING, PMIX_UINT32, PMIX_JOB_SIZE,
                    sizeof(pmix_app_t), offsetof(pmix_app_t, cwd), offsetof(pmix_app_t, ninfo), PMIX_APPNUM, PMIX_UNIV_SIZE,
                    sizeof(pmix_info_t), offsetof(pmix_info_t, flags), offsetof(pmix_info_t, value.data), PMIX_COLLECT_DATA,
                    PMIX_BOOL);
                return 0;
            }"#,
        )
        .unwrap();
        let built = Command::new("cc")
            .args(["-I/usr/lib/x86_64-linux-gnu/pmix2/include", "-o"])
            .args([&program, &source])
            .output();
        let Ok(true) = built.as_ref().map(|built| built.status.success()) else {
            super::super::super::real::skip("no C compiler, or no libpmix-dev");
            return;
        };
        let printed = Command::new(&program).output().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        let ours = format!(
            "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
            size_of::<Proc>(),
            offset_of!(Proc, rank),
            size_of::<Value>(),
            offset_of!(Value, data),
            size_of::<u16>(),
            SUCCESS,
            DONE,
            ALL_RANKS,
            GLOBAL,
            STRING,
            UINT32,
            JOB_SIZE,
            size_of::<App>(),
            offset_of!(App, folder),
            offset_of!(App, infos),
            PROGRAM,
            UNIVERSE,
            size_of::<Info>(),
            offset_of!(Info, flags),
            offset_of!(Info, value) + offset_of!(Yes, data),
            COLLECT.to_str().unwrap(),
            BOOL
        );
        assert_eq!(String::from_utf8_lossy(&printed.stdout), ours);
    }
}
