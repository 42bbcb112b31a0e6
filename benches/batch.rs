//! Compares batches with one datagram per call: `cargo bench`.
//!
//! One thread sends a batch over loopback and receives it: with std, one datagram per call; with `send_batch` and
//! `recv_batch` or `recv_into`; and with `Offload`. Criterion prints times by size of the batch. The run fails if a call of
//! this crate allocates. `benches/compare` compares other crates and raw system calls.

#[path = "../tests/common/counting.rs"]
mod counting;

use std::hint::black_box;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use counting::{Counting, counted};
use criterion::{BenchmarkId, Criterion, Throughput};
use mmsg::{BatchSocket, Offload, RecvBatch, RecvMsg, SendMsg, SendQueue};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of each receive buffer.
const SLOT_LEN: usize = 1500;
/// Bytes of a receive buffer that the kernel charges for a waiting datagram, rounded up.
const CHARGE: usize = 4096;

/// Two sockets: datagrams go from `near` to `far`.
struct Wire {
    near: UdpSocket,
    far: UdpSocket,
    to: SocketAddr,
    /// Datagrams that the receive buffer of `far` holds.
    capacity: usize,
}

impl Wire {
    fn new() -> io::Result<Self> {
        let (near, far) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let to = far.local_addr()?;
        let socket = socket2::SockRef::from(&far);
        socket.set_recv_buffer_size(1024 * CHARGE)?;
        let capacity = socket.recv_buffer_size()? / CHARGE;
        // A lost datagram ends the benchmark; without a timeout it would hang.
        far.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self { near, far, to, capacity })
    }
}

/// Sends a batch and receives it.
type Turn<'w> = Box<dyn FnMut() + 'w>;

const WAYS: [&str; 4] = ["std", "recv_batch", "recv_into", "Offload"];

fn turn<'w>(way: &str, wire: &'w Wire, batch: usize, payload: usize) -> Turn<'w> {
    let payload: &'static [u8] = vec![7; payload].leak();
    let msgs = vec![SendMsg::to(wire.to, payload); batch];
    match way {
        "std" => {
            let mut buffer = vec![0; SLOT_LEN];
            Box::new(move || {
                for _ in 0..batch {
                    wire.near.send_to(payload, wire.to).expect("loopback takes it");
                }
                for _ in 0..batch {
                    black_box(wire.far.recv_from(&mut buffer).expect("it has arrived"));
                }
            })
        }
        "recv_batch" => {
            let memory = vec![0; batch * SLOT_LEN].leak();
            let mut slots: Vec<_> = memory.chunks_exact_mut(SLOT_LEN).map(RecvMsg::new).collect();
            Box::new(move || {
                assert_eq!(wire.near.send_batch(&msgs).expect("loopback takes them"), batch);
                let mut received = 0;
                while received < batch {
                    let count = wire.far.recv_batch(&mut slots).expect("they have arrived");
                    slots[..count]
                        .iter()
                        .for_each(|msg| _ = black_box((msg.message().addr(), msg.data())));
                    received += count;
                }
            })
        }
        "recv_into" => both_ways(&wire.near, &wire.far, msgs, RecvBatch::new(batch, SLOT_LEN)),
        _ => {
            let offload = |socket| Offload::new(socket).expect("a UDP socket");
            let slots = RecvBatch::new(batch.min(32), 65_535);
            both_ways(offload(&wire.near), offload(&wire.far), msgs, slots)
        }
    }
}

fn both_ways<'w>(
    near: impl BatchSocket + 'w,
    far: impl BatchSocket + 'w,
    msgs: Vec<SendMsg<'static>>,
    mut slots: RecvBatch,
) -> Turn<'w> {
    Box::new(move || {
        // An `Offload` copies a bounded number of bytes in a call.
        let mut left = &msgs[..];
        while !left.is_empty() {
            left = &left[near.send_batch(left).expect("loopback takes them")..];
        }
        let mut received = 0;
        while received < msgs.len() {
            far.recv_into(&mut slots).expect("they have arrived");
            for datagram in &slots {
                black_box((datagram.addr(), datagram.data()));
                received += 1;
            }
        }
    })
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20)
        .configure_from_args();
    for payload in [15, 1200] {
        let mut group = criterion.benchmark_group(format!("{payload} bytes"));
        for batch in (0..=9).map(|power| 1 << power) {
            for way in WAYS {
                // New sockets each time: with GRO enabled, a receive of std would return several datagrams.
                let wire = Wire::new().expect("two loopback sockets");
                if batch > wire.capacity {
                    continue;
                }
                group.throughput(Throughput::Elements(batch as u64));
                let mut turn = turn(way, &wire, batch, payload);
                // The first calls allocate headers.
                (0..3).for_each(|_| turn());
                let ((), counts) = counted(|| (0..50).for_each(|_| turn()));
                println!("{way}, batches of {batch}: {} allocations in 50", counts.allocations);
                assert_eq!(counts.allocations, 0, "{way} allocates");
                group.bench_function(BenchmarkId::new(way, batch), |b| b.iter(&mut turn));
            }
        }
        group.finish();
    }
    queues(&mut criterion);
    criterion.final_summary();
}

/// Push and flush. Nobody receives: the kernel drops what does not fit the receive buffer.
fn queues(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue");
    group.sample_size(10);
    let wire = Wire::new().expect("two loopback sockets");
    let msg = SendMsg::to(wire.to, &[7; 15]);
    for length in [1, 64, 4_096, 65_536] {
        group.throughput(Throughput::Elements(length as u64));
        let mut queue = SendQueue::new(1 << 30);
        group.bench_function(BenchmarkId::new("push and flush", length), |b| {
            b.iter(|| {
                (0..length).for_each(|_| queue.push(&msg).expect("there is space"));
                while !queue.is_empty() {
                    wire.near.flush(&mut queue).expect("loopback takes them");
                }
            });
        });
    }
    group.finish();
}
