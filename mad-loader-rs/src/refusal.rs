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
    /// This build of the loader knows no such machine.
    Platform,
}

/// What always works.
const PROCESSES: &str = "run its ranks as processes (mad run -n RANKS PROGRAM)";

/// How to link a program as a shared object, whose thread-locals stay where the loader can find them.
const SHARED: &str =
    "compile with -fPIC and link with -shared \"$(cc -print-file-name=Scrt1.o)\" -Wl,-e,_start";

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotElf => {
                write!(f, "it is neither an ELF executable nor a script: give a compiled program")
            }
            Refusal::Script(interpreter) => write!(
                f,
                "it is a script of {interpreter}, and an interpreter cannot be copied: {PROCESSES}"
            ),
            Refusal::Bits32 => {
                write!(f, "it is a 32-bit file: compile the program for x86-64, without -m32")
            }
            Refusal::OtherMachine(name) => {
                write!(f, "it is a file for {name}: compile the program for x86-64")
            }
            Refusal::Damaged(what) => {
                write!(f, "the file is damaged: {what}; link the program again")
            }
            Refusal::NotExecutable => {
                write!(f, "it is an object or core file: link it to an executable")
            }
            Refusal::Static => write!(
                f,
                "it is linked statically, so its calls cannot be directed to this process's library: \
                 link without -static and -static-pie, or {PROCESSES}"
            ),
            Refusal::FixedAddresses => write!(
                f,
                "it works at fixed addresses only, of which a process has one: compile with -fPIE and \
                 link with -pie, or {PROCESSES}"
            ),
            Refusal::OtherLinker(name) => write!(
                f,
                "it asks for the dynamic linker {name}, another one than this process has: compile the \
                 program for glibc on this machine"
            ),
            Refusal::Library => write!(
                f,
                "it is a shared library without a start: link the program as an executable (-pie)"
            ),
            Refusal::ThreadLocals => write!(
                f,
                "it, or a library that is linked into it, has thread-local variables, which the linker of \
                 an executable places where a process has one block of them (the model local-exec): \
                 {SHARED}, or {PROCESSES}"
            ),
            Refusal::StaticThreadLocals => write!(
                f,
                "its thread-local variables are at a fixed distance from the thread pointer (the model \
                 initial-exec or local-exec): compile with -fPIC -ftls-model=global-dynamic, or {PROCESSES}"
            ),
            Refusal::LocalDescriptors => write!(
                f,
                "it finds its thread-local variables by descriptors: compile with -mtls-dialect=gnu, or \
                 {PROCESSES}"
            ),
            Refusal::NotForDlopen => write!(
                f,
                "it is marked as not to be loaded at run time: link it without -z nodlopen"
            ),
            Refusal::ExecutableStack => write!(
                f,
                "it asks for an executable stack, which all ranks would get: link with -z noexecstack"
            ),
            Refusal::Allocator(name) => write!(
                f,
                "it brings an allocator of its own ({name}), which the C library would not use: link \
                 without it, or {PROCESSES}"
            ),
            Refusal::OtherStart => write!(
                f,
                "it does not call __libc_start_main, so its main function is not known: use a C, C++ or \
                 Fortran compiler's usual start files, or {PROCESSES}"
            ),
            Refusal::MissingLibraries(names) => write!(
                f,
                "its shared librar{} {} not found: name the folder in LD_LIBRARY_PATH, or link with -rpath",
                if names.len() == 1 { "y" } else { "ies" },
                match &names[..] {
                    [one] => format!("{one} is"),
                    _ => format!("{} are", names.join(", ")),
                }
            ),
            Refusal::Platform => {
                write!(f, "ranks as threads are written for x86-64 only: {PROCESSES}")
            }
        }
    }
}

impl std::error::Error for Refusal {}
