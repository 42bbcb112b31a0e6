//! A neighbour of a flooded socket: how many datagrams the socket's task takes between two turns of another task, and how
//! late a timer of 2 ms is. The runtime has one thread.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use mmsg::{AsyncBatchSocket, BatchSocket, Offload, RecvBatch, SendMsg};
use tokio::task::{LocalSet, spawn_local, yield_now};

use crate::Extent;
use crate::load::{COALESCED_LEN, SLOT_LEN};
use crate::tables::Tables;

const TICK: Duration = Duration::from_millis(2);
/// Bytes of each datagram: the kernel segments a flood of these faster than a task receives them.
const PAYLOAD: usize = 16;

/// What the neighbours saw.
#[derive(Default)]
struct Seen {
    /// Datagrams between two turns.
    between: Vec<f64>,
    /// Milliseconds that the timer was late.
    late: Vec<f64>,
}

/// Measures what each way leaves to its neighbours.
pub fn run(extent: Extent, tables: &mut Tables) -> io::Result<()> {
    let time = Duration::from_millis(match extent {
        Extent::Test => 20,
        Extent::Quick => 500,
        Extent::Full => 5_000,
    });
    println!("current_thread beside a flooded socket:");
    for way in ["tokio", "mmsg", "mmsg Offload"] {
        let mut seen = one(way, time)?;
        let figures = [
            part(&mut seen.between, 0.5),
            part(&mut seen.between, 1.0),
            part(&mut seen.late, 0.5),
            part(&mut seen.late, 0.99),
        ];
        let [median, max, late, p99] = figures;
        println!(
            "    {way:14} {median:.0} datagrams between turns of another task (most {max:.0}), \
             a timer of 2 ms is {late:.2} ms late (p99 {p99:.2})"
        );
        tables.flooded(way, figures)?;
    }
    Ok(())
}

/// The value below which this part of the others lies.
fn part(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    values.get((last * part) as usize).copied().unwrap_or(f64::NAN)
}

fn one(way: &str, time: Duration) -> io::Result<Seen> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    mmsg::options::set_recv_buffer(&socket, 32 << 20)?;
    let stop = Arc::new(AtomicBool::new(false));
    let flooder = flood(socket.local_addr()?, stop.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let seen = LocalSet::new().block_on(&runtime, neighbours(way, socket, time));
    stop.store(true, Relaxed);
    flooder.join().expect("no panic")?;
    seen
}

/// Sends until told to stop. A full receiver loses what it has no room for.
fn flood(to: SocketAddr, stop: Arc<AtomicBool>) -> io::Result<thread::JoinHandle<io::Result<()>>> {
    let socket = Offload::new(UdpSocket::bind("127.0.0.1:0")?)?;
    Ok(thread::spawn(move || {
        let payload = [1; PAYLOAD];
        let msgs = [SendMsg::to(to, &payload); 64];
        while !stop.load(Relaxed) {
            socket.send_batch(&msgs)?;
        }
        Ok(())
    }))
}

async fn neighbours(way: &str, socket: UdpSocket, time: Duration) -> io::Result<Seen> {
    let taken = Rc::new(Cell::new(0));
    let server = spawn_local(receive(way.to_string(), socket, taken.clone()));
    let late = Rc::new(RefCell::new(Vec::new()));
    let ticker = spawn_local({
        let late = late.clone();
        async move {
            loop {
                let due = Instant::now() + TICK;
                tokio::time::sleep(TICK).await;
                late.borrow_mut().push((Instant::now() - due).as_secs_f64() * 1e3);
            }
        }
    });
    let mut seen = Seen::default();
    let end = Instant::now() + time;
    while Instant::now() < end {
        let before = taken.get();
        yield_now().await;
        if taken.get() > before {
            seen.between.push((taken.get() - before) as f64);
        }
    }
    server.abort();
    ticker.abort();
    seen.late = late.take();
    Ok(seen)
}

async fn receive(way: String, socket: UdpSocket, taken: Rc<Cell<usize>>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let socket = tokio::net::UdpSocket::from_std(socket)?;
    match &*way {
        "tokio" => {
            let mut buffer = vec![0; SLOT_LEN];
            loop {
                socket.recv_from(&mut buffer).await?;
                taken.set(taken.get() + 1);
            }
        }
        "mmsg" => batches(socket, RecvBatch::new(64, SLOT_LEN), taken).await,
        _ => batches(Offload::new(socket)?, RecvBatch::new(16, COALESCED_LEN), taken).await,
    }
}

async fn batches(
    socket: impl AsyncBatchSocket,
    mut batch: RecvBatch,
    taken: Rc<Cell<usize>>,
) -> io::Result<()> {
    loop {
        socket.recv_into(&mut batch).await?;
        taken.set(taken.get() + batch.datagram_count());
    }
}
