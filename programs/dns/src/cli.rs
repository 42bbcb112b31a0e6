//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum, value_parser};

/// An authoritative DNS server over UDP for one zone.
#[derive(Parser)]
#[command(name = "dns", version)]
pub struct Args {
    /// Address and port to listen on; with port 0 the system picks one.
    #[arg(long, value_name = "ADDR")]
    pub listen: SocketAddr,

    /// The zone, in the format of master files. Without $ORIGIN, names are relative to the file's
    /// name without its last extension.
    #[arg(long, value_name = "FILE")]
    pub zone: PathBuf,

    /// Threads, each with a socket of its own on the same port; the system spreads the clients.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    pub threads: u16,

    /// Address and port on which the sockets' counters are served over HTTP, for Prometheus. With
    /// --mode tokio they stay 0.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,

    /// How datagrams are moved.
    #[arg(long, value_enum, default_value_t = Mode::Offload)]
    pub mode: Mode,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// In batches, by this crate.
    Batch,
    /// In batches, with GSO: answers of the same length to the same client leave as one, which the
    /// kernel segments (UDP_SEGMENT).
    Offload,
    /// One at a time on tokio's socket, without this crate, to compare with. The answers' source
    /// address is what the system picks.
    Tokio,
}
