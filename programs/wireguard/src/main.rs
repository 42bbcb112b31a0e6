//! A WireGuard node: gotatun's protocol between a TUN device and UDP in batches.
//!
//! ```text
//! cargo build --release -p wireguard
//! sudo target/release/wireguard /etc/wireguard/wg0.conf
//! ```
//!
//! The configuration has wg-quick's form. Unlike wg-quick, the program does not change firewall rules or DNS, and adds
//! no routes beyond the networks of `Address`: add them with `ip route add 192.0.2.0/24 dev wg0`.
//!
//! `udp.rs` implements gotatun's socket traits with this crate, `tun.rs` its device traits with tun-rs. `--udp stock`
//! uses gotatun's own sockets, for comparison.

mod config;
mod tun;
mod udp;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use gotatun::device::{DeviceBuilder, Error};
use gotatun::udp::UdpTransportFactory;
use gotatun::udp::socket::UdpSocketFactory;
use tokio::signal::unix::{SignalKind, signal};

use config::Config;
use tun::Tun;
use udp::Batched;

/// Runs a WireGuard node until SIGINT or SIGTERM.
#[derive(Parser)]
#[command(name = "wireguard", version)]
struct Options {
    /// Configuration in wg-quick's form: [Interface] with PrivateKey, Address, ListenPort, MTU; [Peer] with PublicKey,
    /// PresharedKey, AllowedIPs, Endpoint.
    config: PathBuf,

    /// Name of the TUN device; by default the configuration's file name without its extension.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Sockets: this crate's, or gotatun's own.
    #[arg(long, value_enum, default_value_t = Udp::Mmsg)]
    udp: Udp,

    /// TUN device: packets of a TCP connection coalesced, or each alone.
    #[arg(long, value_enum, default_value_t = TunMode::Offload)]
    tun: TunMode,
}

#[derive(Clone, Copy, ValueEnum)]
enum Udp {
    Mmsg,
    Stock,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum TunMode {
    Offload,
    Plain,
}

fn main() -> ExitCode {
    let Err(error) = run(&Options::parse()) else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::FAILURE
}

fn run(options: &Options) -> Result<(), String> {
    let path = options.config.display();
    let text =
        std::fs::read_to_string(&options.config).map_err(|error| format!("{path}: {error}"))?;
    let config = Config::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    let stem = options.config.file_stem().unwrap_or_default().to_string_lossy();
    let device = options.device.as_deref().unwrap_or(&stem);
    let runtime = tokio::runtime::Runtime::new().map_err(|error| format!("tokio: {error}"))?;
    runtime.block_on(async {
        let tun = Arc::new(Tun::new(device, &config, options.tun == TunMode::Offload)?);
        match options.udp {
            Udp::Mmsg => {
                let udp = Batched::default();
                serve(config, device, &tun, udp.clone()).await?;
                say(udp);
            }
            Udp::Stock => {
                let (recv_buffer_size, send_buffer_size) = (Some(udp::RECV_BUFFER), None);
                let udp = UdpSocketFactory { recv_buffer_size, send_buffer_size };
                serve(config, device, &tun, udp).await?;
            }
        }
        say(tun);
        Ok(())
    })
}

/// Runs the node until a signal, and prints the traffic of each peer.
async fn serve(
    config: Config,
    name: &str,
    tun: &Arc<Tun>,
    udp: impl UdpTransportFactory,
) -> Result<(), String> {
    let on = |kind| signal(kind).map_err(|error| format!("signals: {error}"));
    let (mut int, mut term) = (on(SignalKind::interrupt())?, on(SignalKind::terminate())?);
    let (writer, reader) = tun.ends();
    let mut device = DeviceBuilder::new()
        .with_udp(udp)
        .with_ip_pair(writer, reader)
        .with_private_key(config.private_key)
        .with_listen_port(config.port)
        .with_peers(config.peers)
        .build()
        .await
        .map_err(|error| match error {
            Error::Bind(error, _) => format!("UDP port {}: {error}", config.port),
            error => error.to_string(),
        })?;
    let port = device.read(async |device| device.listen_port()).await;
    say(format_args!("listening on port {port}, device {name}\n"));
    let ended = tokio::select! {
        () = device.wait() => Err(format!("TUN device {name} is gone, or the UDP socket failed")),
        _ = int.recv() => Ok(()),
        _ = term.recv() => Ok(()),
    };
    for peer in device.peers().await {
        // Not by its key, which might be a private one by mistake.
        let name = peer.peer.allowed_ips.first().map_or("-".to_owned(), ToString::to_string);
        let (received, sent) = (peer.stats.rx_bytes, peer.stats.tx_bytes);
        say(format_args!("peer {name}: received {received} bytes, sent {sent}\n"));
    }
    device.stop().await;
    ended
}

/// Prints and flushes, also to a pipe. Ignores a closed pipe, so that the node goes on.
fn say(text: impl Display) {
    let mut out = io::stdout().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}
