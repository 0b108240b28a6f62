//! The servers that the broker is measured against, as a program; `rdkafka_performance -P` can drive the first.

use clap::{Parser, Subcommand};
use sillon_bench::floor;
use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

/// Servers that do only what cannot be left out.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    server: Server,
}

#[derive(Subcommand)]
enum Server {
    /// Receives Produce requests, checks their checksums, appends them to a file, acknowledges.
    Produce {
        /// Where to listen.
        address: SocketAddr,
        /// Where to keep the files.
        directory: PathBuf,
    },
    /// Sends pieces of a file with sendfile(2).
    File {
        /// Where to listen.
        address: SocketAddr,
        /// What to send.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let ran = match Arguments::parse().server {
        Server::Produce { address, directory } => floor::serve_produce(address, &directory),
        Server::File { address, file } => floor::serve_file(address, &file),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}
