//! The `mad` command: runs hybrid thread + message programs on this machine, and the experiments that
//! measure them.

mod across;
mod bench;
mod cli;
mod clock;
mod demo;
mod doctor;
mod knobs;
mod launch;
mod out;
mod report;
mod run;
mod sample;
mod topo;
mod trace;

fn main() -> std::process::ExitCode {
    cli::main()
}
