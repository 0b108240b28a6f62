//! The simulator's program. Everything is in the library.

fn main() -> std::process::ExitCode {
    sillon_sim::cli::main()
}
