//! Why a file cannot run as a rank.

use std::fmt;

/// Why a file cannot run several times in one process, and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// No ELF file.
    NotElf,
    /// A script; its interpreter.
    Script(String),
    /// A file of a 32-bit machine.
    Bits32,
    /// A file of another machine than this one.
    OtherMachine(String),
    /// The file contradicts itself.
    Damaged(String),
    /// An object file, or a core file.
    NotExecutable,
    /// A statically linked executable.
    Static,
    /// An executable that works at fixed addresses only.
    FixedAddresses,
    /// An executable of another dynamic linker.
    OtherLinker(String),
    /// An executable that names a library for the dynamic linker to run (`DT_AUDIT`, `DT_DEPAUDIT`).
    Auditor,
    /// A shared library that is no program.
    Library,
    /// An executable with thread-local variables.
    ThreadLocals,
    /// A shared object whose thread-local variables are at a fixed distance from the thread pointer.
    StaticThreadLocals,
    /// A shared object that finds its thread-local variables by descriptors.
    LocalDescriptors,
    /// The linker was told that the file must not be loaded at run time.
    NotForDlopen,
    /// The program asks for an executable stack.
    ExecutableStack,
    /// The program brings an allocator of its own; a function of it.
    Allocator(String),
    /// The program does not start as those of the C library do.
    OtherStart,
    /// Shared libraries that are not found.
    MissingLibraries(Vec<String>),
    /// A library that compares addresses of the program's variables; its name.
    BoundLibrary(String),
    /// This build of the loader knows no such machine.
    Platform,
}

/// What always works.
const PROCESSES: &str = "run its ranks as processes (mad run -n RANKS PROGRAM)";

/// How to link a program as a shared object, whose thread-locals stay where the loader can find them.
const SHARED: &str =
    "compile with -fPIC and link with -shared \"$(cc -print-file-name=Scrt1.o)\" -Wl,-e,_start";

impl Refusal {
    /// What the file is, or has, that stands in the way.
    pub fn reason(&self) -> String {
        let reason = match self {
            Refusal::NotElf => "it is neither an ELF executable nor a script",
            Refusal::Script(interpreter) => {
                return format!(
                    "it is a script of {interpreter}, and an interpreter cannot be copied"
                );
            }
            Refusal::Bits32 => "it is a 32-bit file",
            Refusal::OtherMachine(name) => return format!("it is a file for {name}"),
            Refusal::Damaged(what) => return format!("the file is damaged: {what}"),
            Refusal::NotExecutable => "it is an object or core file",
            Refusal::Static => {
                "it is linked statically, so its calls cannot be directed to this process's library"
            }
            Refusal::FixedAddresses => {
                "it works at fixed addresses only, of which a process has one"
            }
            Refusal::OtherLinker(name) => {
                return format!(
                    "it asks for the dynamic linker {name}, another one than this process has"
                );
            }
            Refusal::Auditor => {
                "it names a library that watches the dynamic linker (DT_AUDIT, DT_DEPAUDIT), whose code would run before \
                 the program's"
            }
            Refusal::Library => "it is a shared library without a start",
            Refusal::ThreadLocals => {
                "it, or a library that is linked into it, has thread-local variables, which the linker of \
                 an executable places where a process has one block of them (the model local-exec)"
            }
            Refusal::StaticThreadLocals => {
                "its thread-local variables are at a fixed distance from the thread pointer (the model \
                 initial-exec or local-exec)"
            }
            Refusal::LocalDescriptors => "it finds its thread-local variables by descriptors",
            Refusal::NotForDlopen => "it is marked as not to be loaded at run time",
            Refusal::ExecutableStack => {
                "it asks for an executable stack, which all ranks would get"
            }
            Refusal::Allocator(name) => {
                return format!(
                    "it brings an allocator of its own ({name}), which the C library would not use"
                );
            }
            Refusal::OtherStart => {
                "it does not call __libc_start_main, so its main function is not known"
            }
            Refusal::MissingLibraries(names) => {
                return match &names[..] {
                    [one] => format!("its shared library {one} is not found"),
                    _ => format!("its shared libraries {} are not found", names.join(", ")),
                };
            }
            Refusal::BoundLibrary(name) => {
                return format!(
                    "its library {name} knows constants of Fortran (MPI_IN_PLACE, MPI_BOTTOM, MPI_STATUS_IGNORE) by \
                     their addresses, and each rank's copy has others"
                );
            }
            Refusal::Platform => "ranks as threads are written for x86-64 only",
        };
        reason.to_owned()
    }

    /// What to do about it.
    pub fn way_out(&self) -> String {
        let way = match self {
            Refusal::NotElf => "give a compiled program",
            Refusal::Script(_) | Refusal::BoundLibrary(_) | Refusal::Platform => PROCESSES,
            Refusal::Bits32 => "compile the program for x86-64, without -m32",
            Refusal::OtherMachine(_) => "compile the program for x86-64",
            Refusal::Damaged(_) => "link the program again",
            Refusal::NotExecutable => "link it to an executable",
            Refusal::Static => {
                return format!("link without -static and -static-pie, or {PROCESSES}");
            }
            Refusal::FixedAddresses => {
                return format!("compile with -fPIE and link with -pie, or {PROCESSES}");
            }
            Refusal::OtherLinker(_) => "compile the program for glibc on this machine",
            Refusal::Auditor => {
                return format!("link without --audit and --depaudit, or {PROCESSES}");
            }
            Refusal::Library => "link the program as an executable (-pie)",
            Refusal::ThreadLocals => return format!("{SHARED}, or {PROCESSES}"),
            Refusal::StaticThreadLocals => {
                return format!("compile with -fPIC -ftls-model=global-dynamic, or {PROCESSES}");
            }
            Refusal::LocalDescriptors => {
                return format!("compile with -mtls-dialect=gnu, or {PROCESSES}");
            }
            Refusal::NotForDlopen => "link it without -z nodlopen",
            Refusal::ExecutableStack => "link with -z noexecstack",
            Refusal::Allocator(_) => return format!("link without it, or {PROCESSES}"),
            Refusal::OtherStart => {
                return format!("use a C or C++ compiler's usual start files, or {PROCESSES}");
            }
            Refusal::MissingLibraries(_) => {
                "name the folder in LD_LIBRARY_PATH, or link with -rpath"
            }
        };
        way.to_owned()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason(), self.way_out())
    }
}

impl std::error::Error for Refusal {}
