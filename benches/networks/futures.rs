//! An echo server on tokio for minutes under load: its memory must not grow, and at the end no descriptor and no task
//! may be left.
//!
//! ```text
//! cargo test --release -p networks -- --ignored --nocapture futures::
//! ```
//!
//! Takes ten minutes, or `SOAK_SECONDS`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mmsg::{AsyncBatchSocket, Offload, RecvBatch, SendMsg, SendQueue};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Pairs of server and client, half of them with `Offload`.
const PAIRS: usize = 4;
/// Datagrams in flight for each client.
const WINDOW: usize = 48;
const SIZE: usize = 700;
/// Growth of resident memory that is no leak: parts of a batch used for the first time, and memory that the allocator
/// keeps. Leaking one datagram of a thousand would exceed it within seconds.
const SLACK_KIB: u64 = 2_048;
/// After this time a datagram counts as lost. No busy machine takes as long.
const LOST: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Counts {
    echoed: AtomicU64,
    lost: AtomicU64,
    /// Futures dropped before they had received anything.
    dropped: AtomicU64,
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.and_then(|line| line.split_whitespace().next());
    words.and_then(|kib| kib.parse().ok()).expect("a number of KiB")
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("Linux has it").count()
}

async fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a loopback socket")
}

fn addr(socket: &impl AsyncBatchSocket<Socket = UdpSocket>) -> SocketAddr {
    socket.tokio_socket().local_addr().expect("it is bound")
}

/// Sends back every datagram until aborted.
async fn echo(socket: impl AsyncBatchSocket) {
    let (mut batch, mut queue) = (RecvBatch::for_gro(16), SendQueue::new(4 << 20));
    loop {
        socket.recv_into(&mut batch).await.expect("no error on loopback");
        for datagram in &batch {
            let source = datagram.addr().expect("it has one");
            queue.push(&SendMsg::to(source, datagram.data())).expect("there is space for a batch");
        }
        socket.flush(&mut queue).await.expect("loopback takes it");
    }
}

/// Keeps a window of datagrams in flight and checks what comes back, until `stop` is set.
async fn load(
    socket: impl AsyncBatchSocket,
    to: SocketAddr,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
) {
    let mut batch = RecvBatch::for_gro(16);
    let mut round = 0u64;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let mut payload = [0xA5; SIZE];
        payload[..8].copy_from_slice(&round.to_be_bytes());
        let msgs = [SendMsg::to(to, &payload); WINDOW];
        let mut sent = 0;
        while sent < WINDOW {
            sent += socket.send_batch(&msgs[sent..]).await.expect("it runs");
        }
        if round.is_multiple_of(16) {
            // A dropped future must lose nothing, at any stage.
            let dropped = timeout(Duration::ZERO, socket.recv_into(&mut batch)).await;
            if dropped.is_err() {
                counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        let mut back = batch.iter().filter(|datagram| datagram.data() == payload).count();
        while back < WINDOW {
            match timeout(LOST, socket.recv_into(&mut batch)).await {
                Ok(received) => {
                    received.expect("no error on loopback");
                    // A datagram of an earlier round, already counted as lost, may still arrive.
                    back += batch.iter().filter(|datagram| datagram.data() == payload).count();
                }
                Err(_) => {
                    counts.lost.fetch_add((WINDOW - back) as u64, Ordering::Relaxed);
                    break;
                }
            }
        }
        counts.echoed.fetch_add(back as u64, Ordering::Relaxed);
        batch.clear();
    }
}

/// Starts the pairs and returns the tasks of servers and clients.
async fn start(counts: &Arc<Counts>, stop: &Arc<AtomicBool>) -> [Vec<JoinHandle<()>>; 2] {
    let (mut servers, mut clients) = (Vec::new(), Vec::new());
    for i in 0..PAIRS {
        let (server, client) = (socket().await, socket().await);
        let to = addr(&server);
        let (counts, stop) = (Arc::clone(counts), Arc::clone(stop));
        if i % 2 == 0 {
            servers.push(tokio::spawn(echo(server)));
            clients.push(tokio::spawn(load(client, to, counts, stop)));
        } else {
            let offload = |socket| Offload::new(socket).expect("a UDP socket");
            servers.push(tokio::spawn(echo(offload(server))));
            clients.push(tokio::spawn(load(offload(client), to, counts, stop)));
        }
    }
    [servers, clients]
}

#[test]
#[ignore = "takes ten minutes"]
fn an_echo_under_load_keeps_its_memory_and_leaves_nothing() {
    let seconds = std::env::var("SOAK_SECONDS").ok().map(|text| text.parse().expect("a number"));
    let time = Duration::from_secs(seconds.unwrap_or(600));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (counts, stop) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
    let open = descriptors();

    let [servers, clients] = runtime.block_on(start(&counts, &stop));
    let grown = runtime.block_on(watch(time, &counts));
    stop.store(true, Ordering::Relaxed);
    runtime.block_on(async {
        for client in clients {
            client.await.expect("no client fails");
        }
        for server in servers {
            server.abort();
            assert!(server.await.expect_err("it was aborted").is_cancelled(), "a server failed");
        }
    });
    // The runtime may keep a joined task for a moment.
    let end = Instant::now() + LOST;
    while runtime.metrics().num_alive_tasks() > 0 {
        assert!(Instant::now() < end, "tasks are left");
        std::thread::yield_now();
    }
    assert_eq!(descriptors(), open, "descriptors are left");
    let (echoed, lost) =
        (counts.echoed.load(Ordering::Relaxed), counts.lost.load(Ordering::Relaxed));
    // Loopback drops datagrams that a receive buffer has no space for; the windows fit.
    assert!(echoed > 0 && lost * 1_000 <= echoed, "{lost} lost, {echoed} echoed");
    assert!(grown <= SLACK_KIB, "resident memory has grown by {grown} KiB");
}

/// Prints figures from time to time. Returns by how many KiB resident memory grew after the first tenth of the time.
/// tenth of the time.
async fn watch(time: Duration, counts: &Counts) -> u64 {
    let (start, step) = (Instant::now(), time / 20);
    let (mut first, mut last) = (0, 0);
    for i in 1..=20 {
        sleep(step).await;
        last = resident_kib();
        if i == 2 {
            first = last;
        }
        println!(
            "{:4} s  resident {last} KiB  descriptors {}  echoed {}  lost {}  dropped futures {}",
            start.elapsed().as_secs(),
            descriptors(),
            counts.echoed.load(Ordering::Relaxed),
            counts.lost.load(Ordering::Relaxed),
            counts.dropped.load(Ordering::Relaxed),
        );
    }
    last.saturating_sub(first)
}
