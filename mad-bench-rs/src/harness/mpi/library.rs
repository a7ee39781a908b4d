//! Where an MPI library is, how a program is built with it, how it is launched over one driver or the other.
//!
//! Debian's Open MPI and MPICH live side by side under names of their own and are looked up in `PATH`. Newer ones come
//! as Python wheels, each in a virtual environment of its own below one folder: `--peers-dir`, else `mad/mpi` in the
//! user's cache. A program is built on first use into the cache, under a name made of its source and compiler.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::libraries::{self, Kind, Known, Origin};
use crate::harness::program::{self, Source, cache};

/// A file of the programs, and what is in it.
macro_rules! sources {
    ($($name:literal),*) => { [$(($name, include_str!(concat!("../../../peers/mpi/", $name)))),*] };
}

const SOURCES: [Source; 21] = sources![
    "peer.h",
    "app.h",
    "spin.h",
    "latency.c",
    "stream.c",
    "mt_latency.c",
    "overlap.c",
    "submit.c",
    "halo.c",
    "hidden.c",
    "cg.c",
    "wavefront.c",
    "bfs.c",
    "sort.c",
    "montecarlo.c",
    "coll.c",
    "collaborative.c",
    "onesided.c",
    "files.c",
    "reactivity.c",
    "idle.c"
];

/// An MPI library that is installed here.
pub(crate) struct Library {
    known: &'static Known,
    compiler: PathBuf,
    launcher: PathBuf,
    /// Where it is, when it is a wheel.
    root: Option<PathBuf>,
}

fn in_path(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The library of this name; wheels are below `dir`, when that is given.
///
/// # Errors
/// Why it cannot be used, and what to do about it.
pub(crate) fn find(name: &str, dir: Option<&Path>) -> Result<Library, String> {
    let known = libraries::find(name).ok_or("no such MPI library")?;
    let Known { name, kind, origin, .. } = *known;
    let of = |compiler, launcher, root| Library { known, compiler, launcher, root };
    let folder = match origin {
        Origin::System { compiler, launcher, packages } => {
            return match (in_path(compiler), in_path(launcher)) {
                (Some(compiler), Some(launcher)) => Ok(of(compiler, launcher, None)),
                _ => Err(format!(
                    "{name}: there is no {compiler} or no {launcher} (apt-get install {packages})"
                )),
            };
        }
        Origin::Wheel { folder, .. } | Origin::Script { folder, .. } => folder,
    };
    let dir = dir.map_or_else(|| cache().map(|cache| cache.join("mpi")), |dir| Ok(dir.to_owned()));
    let root = dir.map_err(|why| format!("{name}: {why}"))?.join(folder);
    let compiler = root.join("bin/mpicc");
    let launcher = match kind {
        Kind::Madmpi => {
            mad_launch::own_program().map_err(|e| format!("{name}: where this command is: {e}"))?
        }
        _ => root.join("bin/mpiexec"),
    };
    if compiler.is_file() && launcher.is_file() {
        return Ok(of(compiler, launcher, Some(root)));
    }
    let (compiler, root) = (compiler.display(), root.display());
    Err(match origin {
        Origin::Script { script, .. } => {
            format!("{name}: there is no {compiler} (install it: {script} {root})")
        }
        Origin::Wheel { packages, .. } | Origin::System { packages, .. } => format!(
            "{name}: there is no {compiler} (python3 -m venv {root} && {root}/bin/pip install {packages}; --peers-dir \
             names another folder)"
        ),
    })
}

impl Library {
    /// Variables that it wants set wherever its commands run.
    fn own_environment(&self) -> Vec<(OsString, OsString)> {
        let Some(root) = self.root.as_ref().filter(|_| self.known.kind == Kind::Intel) else {
            return Vec::new();
        };
        vec![
            ("I_MPI_ROOT".into(), root.into()),
            ("FI_PROVIDER_PATH".into(), root.join("lib").into()),
        ]
    }

    /// The program, built if it is not there yet.
    ///
    /// # Errors
    /// Why it cannot be built.
    pub(crate) fn build(&self, program: &str) -> Result<PathBuf, String> {
        let of = |why: String| format!("{}: {why}", self.known.name);
        let place = self.place().map_err(of)?;
        let built = place.join(program);
        program::build(&place, &built, &SOURCES, |part| {
            let mut command = Command::new(&self.compiler);
            command.args(["-O2", "-std=gnu11", "-pthread", "-o"]).arg(part);
            command.arg(place.join(format!("{program}.c"))).arg("-lm");
            command.envs(self.own_environment());
            command
        })
        .map_err(|why| match self.known.origin {
            Origin::System { packages, .. } if why.contains(": mpi.h: ") => {
                let compiler = self.compiler.display();
                of(format!("{compiler} finds no mpi.h (apt-get install {packages})"))
            }
            _ => of(why),
        })?;
        Ok(built)
    }

    /// The folder of its programs. A compiler that was installed anew, under the same path, makes other programs.
    fn place(&self) -> Result<PathBuf, String> {
        let installed = fs::metadata(&self.compiler).and_then(|file| file.modified()).ok();
        program::place(&format!("mpi-{}", self.known.name), (SOURCES, &self.compiler, installed))
    }

    /// The command that starts so many processes of `program` which reach each other over `driver`. `crowded`: there are
    /// more than cores, and a library that polls is told to give its core away while it does, where it has such an option.
    /// `each`: so many share a process, where they are madmpi's.
    pub(crate) fn launch(
        &self,
        program: &Path,
        driver: &str,
        (ranks, crowded): (u32, bool),
        each: u32,
    ) -> Command {
        let mut command = Command::new(&self.launcher);
        // What a launcher above left there is not for this one.
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if ["PMI_", "PMIX_", "OMPI_", "UCX_"].iter().any(|p| text.starts_with(p)) {
                command.env_remove(&name);
            }
        }
        let (tcp, ranks) = (driver == "tcp", ranks.to_string());
        match self.known.kind {
            Kind::OpenMpi | Kind::OpenMpiUcx => {
                command.args(["--bind-to", "none", "--oversubscribe", "-np", &ranks]);
                if crowded {
                    command.env("OMPI_MCA_mpi_yield_when_idle", "1");
                }
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
                command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            }
            Kind::Mpich => {
                command.args(["-bind-to", "none", "-n", &ranks]);
            }
            Kind::Intel => {
                command.args(["-n", &ranks]).env("I_MPI_PIN", "0");
            }
            Kind::Madmpi => {
                command.args(["run", "-n", &ranks, "--driver", driver]);
                if each > 1 {
                    command.args(["--ranks-per-process", &each.to_string()]);
                }
            }
        }
        if self.known.progress {
            // What each library's documentation names for messages that go on outside calls.
            match self.known.kind {
                Kind::OpenMpi | Kind::OpenMpiUcx => {
                    command.env("OMPI_MCA_btl_tcp_progress_thread", "1");
                }
                Kind::Mpich => {
                    command.env("MPIR_CVAR_ASYNC_PROGRESS", "1");
                }
                Kind::Intel => {
                    command.env("I_MPI_ASYNC_PROGRESS", "1");
                }
                Kind::Madmpi => {}
            }
        }
        match self.known.kind {
            Kind::OpenMpi => {
                let memory = if self.root.is_some() { "self,sm" } else { "self,vader" };
                command.env("OMPI_MCA_pml", "ob1");
                command.env("OMPI_MCA_btl", if tcp { "self,tcp" } else { memory });
                command.env("OMPI_MCA_btl_tcp_if_include", "lo");
                if tcp {
                    // Else windows are in shared memory, whatever the driver. Newer ones have no `pt2pt`.
                    let windows = if self.root.is_some() { "rdma" } else { "pt2pt" };
                    command.env("OMPI_MCA_osc", windows);
                }
            }
            Kind::OpenMpiUcx => {
                command.env("OMPI_MCA_pml", "ucx");
                // Otherwise it takes itself out where it sees no network card.
                command.env("OMPI_MCA_pml_ucx_tls", "any").env("OMPI_MCA_pml_ucx_devices", "any");
                command.env("UCX_TLS", if tcp { "tcp,self" } else { "shm,self" });
            }
            Kind::Mpich if tcp => {
                command.env("MPIR_CVAR_NOLOCAL", "1");
                command.env("UCX_TLS", "tcp,self").env("FI_PROVIDER", "tcp");
            }
            Kind::Mpich | Kind::Madmpi => {}
            Kind::Intel if tcp => {
                command.env("I_MPI_FABRICS", "ofi").env("I_MPI_OFI_PROVIDER", "tcp");
            }
            Kind::Intel => {
                command.env("I_MPI_FABRICS", "shm");
            }
        }
        command.envs(self.own_environment()).arg(program);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_and_what_is_missing_says_how_to_get_it() {
        let nowhere = Path::new("/nonexistent");
        for name in libraries::KNOWN.iter().map(|known| known.name) {
            if let Err(why) = find(name, Some(nowhere)) {
                assert!(why.starts_with(name) && why.contains("install"), "{why}");
            }
        }
        assert!(find("impi", Some(nowhere)).is_err());
    }

    fn openmpi(compiler: &Path) -> Library {
        Library {
            known: libraries::find("openmpi").unwrap(),
            compiler: compiler.to_owned(),
            launcher: "mpirun".into(),
            root: None,
        }
    }

    #[test]
    fn a_compiler_that_was_installed_anew_makes_other_programs() {
        let file = std::env::temp_dir().join(format!("mad-mpicc-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let before = openmpi(&file).place().unwrap();
        assert_eq!(openmpi(&file).place().unwrap(), before);
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
        fs::File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
        let after = openmpi(&file).place().unwrap();
        fs::remove_file(&file).unwrap();
        assert_ne!(before, after);
    }

    #[test]
    fn a_launcher_gets_the_driver_that_is_asked_for() {
        let library = openmpi(Path::new("cc"));
        let btl = |driver| {
            let command = library.launch(Path::new("program"), driver, (2, false), 1);
            let value = command.get_envs().find(|(name, _)| *name == "OMPI_MCA_btl");
            value.and_then(|(_, value)| Some(value?.to_string_lossy().into_owned()))
        };
        assert_eq!(btl("shm").as_deref(), Some("self,vader"));
        assert_eq!(btl("tcp").as_deref(), Some("self,tcp"));
    }

    #[test]
    fn a_library_that_can_yield_does_so_where_ranks_share_cores() {
        let library = openmpi(Path::new("cc"));
        let yields = |ranks, crowded| {
            let command = library.launch(Path::new("program"), "shm", (ranks, crowded), 1);
            assert!(command.get_args().any(|word| word.to_str() == Some(&ranks.to_string())));
            let name = "OMPI_MCA_mpi_yield_when_idle";
            command.get_envs().any(|(known, value)| known == name && value.is_some())
        };
        assert!(yields(8, true));
        assert!(!yields(4, false));
    }
}
