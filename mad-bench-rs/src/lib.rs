//! The experiments of `mad`: what they measure, in which processes, beside which other libraries; the report about
//! them; and their way across machines.
//!
//! | module | has |
//! |---|---|
//! | [`report`] | all experiments in one page |
//! | [`demo`], [`sample`] | the main result in a minute; the networks measured, for sessions to choose by |
//! | [`command`] | `mad bench`: its command line, and the run of an experiment |
//! | [`across`] | workers on other machines |
//! | [`out`], [`quantity`] | what a command prints, and how it ends; how sizes and times are written for people |
//! | [`knobs`], [`clock`] | the knobs of all crates; the clock, and what the processor offers |

pub mod across;
mod campaign;
pub mod clock;
pub mod command;
mod config;
pub mod demo;
mod experiments;
mod harness;
pub mod knobs;
pub mod out;
pub mod quantity;
pub mod report;
pub mod sample;
