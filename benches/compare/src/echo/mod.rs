//! What an echo server pays, on tokio and on a thread: with few or many datagrams in flight, with GSO batches, and with a
//! thousand sockets that have a datagram each.
//!
//! `compare tokio` measures all of it. The servers of a load are processes that run at the same time and take turns. A
//! figure is the server's CPU time per datagram, beside that of tokio's own calls, or std's, in the same round.

mod calls;
pub mod servers;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg};

use crate::load::SLOT_LEN;
use crate::tables::{Echoed, Tables};
use crate::{Extent, wire};
use servers::Flavor;

/// Sockets of the load "1,000 sockets".
const MANY: usize = 1_000;
/// Datagrams in flight with one socket.
const IN_FLIGHT: [usize; 5] = [1, 2, 4, 16, 64];
/// The same where the client sends GSO batches.
const IN_BATCHES: usize = 512;
/// Bytes of each datagram of a GSO batch, and of each other one.
const PAYLOADS: [usize; 2] = [1200, 200];
/// A datagram that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(60);

struct Pace {
    rounds: usize,
    slice: Duration,
}

/// What the client keeps under way.
#[derive(Clone, Copy)]
struct Load {
    sockets: usize,
    in_flight: usize,
    gso: bool,
}

impl Load {
    fn name(self) -> String {
        match self {
            Self { sockets: MANY, .. } => format!("{MANY} sockets with one each"),
            Self { in_flight, gso: true, .. } => format!("{in_flight} in flight by GSO"),
            Self { in_flight, .. } => format!("{in_flight} in flight"),
        }
    }
}

/// Measures the loads whose names contain `filter`, on the runtimes whose names do.
pub fn run(filter: &str, extent: Extent, tables: &mut Tables) -> io::Result<()> {
    let pace = |rounds, slice| Pace { rounds, slice: Duration::from_millis(slice) };
    let pace = match extent {
        Extent::Test => pace(1, 5),
        Extent::Quick => pace(5, 100),
        Extent::Full => pace(21, 100),
    };
    let mut loads = IN_FLIGHT.map(|in_flight| Load { sockets: 1, in_flight, gso: false }).to_vec();
    if wire::capacity()? < IN_BATCHES {
        println!(
            "skipped: echo by GSO: its datagrams do not fit the receive buffers (root gets larger ones)"
        );
    } else {
        loads.push(Load { sockets: 1, in_flight: IN_BATCHES, gso: true });
    }
    loads.push(Load { sockets: MANY, in_flight: MANY, gso: false });
    for flavor in Flavor::ALL {
        for load in &loads {
            // A blocking server has one socket.
            let is_there = flavor != Flavor::Blocking || load.sockets == 1;
            if is_there && format!("{} {}", flavor.name(), load.name()).contains(filter) {
                in_turn(flavor, *load, &pace, tables)?;
            }
        }
    }
    Ok(())
}

/// Measures all servers of a runtime under one load.
fn in_turn(flavor: Flavor, load: Load, pace: &Pace, tables: &mut Tables) -> io::Result<()> {
    let Load { sockets, .. } = load;
    let start = |way| servers::start(way, flavor, sockets);
    let mut servers =
        servers::ways(flavor, sockets).into_iter().map(start).collect::<io::Result<Vec<_>>>()?;
    let mut cpu = vec![Vec::new(); servers.len()];
    let mut calls = vec![Vec::new(); servers.len()];
    let mut client = Client::new(load)?;
    for round in 0..pace.rounds {
        for step in 0..servers.len() {
            let i = (step + round) % servers.len();
            let server = &mut servers[i];
            // The first datagrams meet a server whose caches hold another's data.
            client.run(&server.addrs, pace.slice / 10)?;
            let before = (server.cpu(), server.calls()?);
            let echoed = client.run(&server.addrs, pace.slice)? as f64;
            let used = (server.cpu() - before.0, server.calls()? - before.1);
            cpu[i].push(used.0.as_nanos() as f64 / echoed);
            calls[i].push(used.1 as f64 / echoed);
        }
    }
    let load = &*load.name();
    println!("{}, {load}:", flavor.name());
    for (i, server) in servers.iter().enumerate() {
        let ratios: Vec<_> = cpu[i].iter().zip(&cpu[0]).map(|(one, other)| one / other).collect();
        let [low, ratio, high] = quartiles(ratios);
        let [[_, ns, _], [_, calls, _]] = [&cpu, &calls].map(|all| quartiles(all[i].clone()));
        println!(
            "    {:24} {ns:6.0} ns, {calls:5.2} calls, {ratio:.3} of {} ({low:.3} .. {high:.3})",
            server.way, servers[0].way
        );
        let row = Echoed { flavor: flavor.name(), load, way: server.way };
        tables.echoed(&row, [ns, calls], [low, ratio, high])?;
    }
    Ok(())
}

/// Keeps datagrams in flight: for each that comes back, another leaves.
struct Client {
    load: Load,
    socket: Offload<UdpSocket>,
    batch: RecvBatch,
    payload: Vec<u8>,
}

impl Client {
    fn new(load: Load) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(PATIENCE))?;
        mmsg::options::set_recv_buffer(&socket, 8 << 20)?;
        let socket = Offload::builder().gso(load.gso).gro(load.gso).build(socket)?;
        let batch = if load.gso { RecvBatch::for_gro(64) } else { RecvBatch::new(MANY, SLOT_LEN) };
        let payload = vec![7; PAYLOADS[usize::from(!load.gso)]];
        Ok(Self { load, socket, batch, payload })
    }

    /// Returns how many came back. At the end none is in flight.
    fn run(&mut self, to: &[SocketAddr], time: Duration) -> io::Result<usize> {
        let end = Instant::now() + time;
        let (in_flight, payload) = (self.load.in_flight, &*self.payload);
        let mut dests = to.iter().cycle();
        let mut send = |count: usize| {
            let msgs: Vec<_> =
                dests.by_ref().take(count).map(|to| SendMsg::to(*to, payload)).collect();
            let mut left = &msgs[..];
            while !left.is_empty() {
                left = &left[self.socket.send_batch(left)?..];
            }
            io::Result::Ok(())
        };
        send(in_flight)?;
        let (mut echoed, mut waiting) = (0, in_flight);
        while waiting > 0 {
            self.socket.recv_into(&mut self.batch).map_err(|error| {
                io::Error::new(error.kind(), format!("{waiting} of {in_flight} are lost: {error}"))
            })?;
            assert!(self.batch.iter().all(|d| d.data() == payload), "another payload came back");
            let came = self.batch.iter().count();
            (echoed, waiting) = (echoed + came, waiting - came);
            // To many sockets, a round begins when the last one has ended: each holds one datagram.
            let next = if to.len() == 1 { came } else { in_flight * usize::from(waiting == 0) };
            if next > 0 && Instant::now() < end {
                send(next)?;
                waiting += next;
            }
        }
        Ok(echoed)
    }
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}
