//! The `mad` command: runs hybrid thread + message programs on this machine, and the experiments that
//! measure them.

mod cli;
mod doctor;
mod knobs;
mod mpiexec;
mod run;
mod topo;
mod trace;

fn main() -> std::process::ExitCode {
    cli::main()
}
