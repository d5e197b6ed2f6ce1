//! Everything a contributor runs: `cargo xtask test`, `ci`, `bench`, `services`,
//! `chaos`.

mod bench;
mod chaos;
mod ci;
mod features;
mod manifest;
mod package;
#[cfg_attr(not(unix), path = "services/absent.rs")]
mod services;
mod step;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xshell::Shell;

/// What contributors to mq run.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every test: those of the crates, and those in their documentation.
    Test,
    /// Run all that a change must pass before it lands, or only the steps named.
    Ci {
        /// Which steps; all of them if none is named.
        #[arg(value_parser = ci::step_names())]
        steps: Vec<String>,
    },
    /// Run the benchmarks, or only those named.
    Bench {
        /// Measure briefly: enough to see that they work, too little to compare.
        #[arg(long)]
        quick: bool,
        /// Which benchmarks; all of them if none is named.
        names: Vec<String>,
    },
    /// Run jobs while workers and servers are killed, and say whether any was lost
    /// or ran twice; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Chaos {
        /// What the harness is told.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Throw-away Redis and Postgres for tests that you run by hand; `test`
    /// starts and stops its own.
    Services {
        #[command(subcommand)]
        action: services::Action,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let shell = Shell::new()?;
    shell.change_dir(workspace::root());
    match cli.command {
        Command::Test => step::run(&shell, test::STEPS),
        Command::Ci { steps } => ci::run(&shell, &steps),
        Command::Chaos { arguments } => chaos::run(&shell, &arguments),
        Command::Services { action } => services::run(&shell, &action),
        Command::Bench { quick, names } => bench::run(&shell, bench::Length::from(quick), &names),
    }
}
