//! The effect of busy polling on a round trip between two virtual Ethernet devices.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use mmsg::options::set_busy_poll;
use mmsg::{BatchSocket, BatchSocketExt, RecvBatch, SendMsg};

use crate::common::linux::{cpus, run_on};
use crate::common::{TIME_LIMIT, skip};
use crate::veth::{DEVICE, FAR, FAR_DEVICE, NEAR, with_far_end, with_napi};

/// Round trips in one turn, and turns of each setting.
const TRIPS: usize = 500;
const TURNS: usize = 21;

/// Prints medians: `cargo test --release --test networks -- --ignored --nocapture busy_polling`.
#[test]
#[ignore = "measures, and wants a quiet machine"]
fn busy_polling_over_veth() {
    let name = "busy_polling_over_veth";
    with_far_end(name, |far| {
        let napi = with_napi(DEVICE).and_then(|()| far.enter(|| with_napi(FAR_DEVICE)));
        if let Err(error) = napi {
            return skip(name, format_args!("no NAPI on the devices: {error}"));
        }
        println!("| threads | busy polling | median round trip | CPU time, both ends |");
        println!("|---|---|---|---|");
        let cpus = cpus();
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        for (threads, near, at_far) in [("a CPU each", first, last), ("one CPU", first, first)] {
            run_on(near);
            let (here, there) = (bound(NEAR), far.enter(|| bound(FAR)));
            here.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
            for (setting, trip, cpu) in measure(&here, &there, at_far) {
                println!("| {threads} | {setting:?} | {trip:.1?} | {cpu:.1?} |");
            }
        }
    });
}

/// For each setting, the medians of its turns: time and CPU time of a round trip.
fn measure(here: &UdpSocket, there: &UdpSocket, cpu: usize) -> [(Duration, Duration, Duration); 3] {
    let to = there.local_addr().expect("it is bound");
    let settings = [0, 50, 200].map(Duration::from_micros);
    let mut turns = settings.map(|_| Vec::new());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            run_on(cpu);
            echo(there, &stop);
        });
        for _ in 0..TURNS {
            for (setting, times) in settings.iter().zip(&mut turns) {
                set_busy_poll(here, *setting).expect("root may");
                set_busy_poll(there, *setting).expect("root may");
                times.push(round_trips(here, to));
            }
        }
        stop.store(true, Relaxed);
    });
    [0, 1, 2].map(|i| {
        let trip = median(turns[i].iter().map(|turn| turn.0).collect());
        let cpu = median(turns[i].iter().map(|turn| turn.1).collect());
        (settings[i], trip, cpu)
    })
}

fn bound(addr: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((addr, 0)).expect("an address of this namespace");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    socket
}

fn echo(socket: &UdpSocket, stop: &AtomicBool) {
    let mut batch = RecvBatch::new(8, 1_500);
    while !stop.load(Relaxed) {
        if socket.recv_into(&mut batch).is_ok() {
            let replies = batch.iter().filter_map(|datagram| datagram.reply(datagram.data()));
            socket.send_each(replies, |_, error| panic!("{error}")).expect("it blocks");
        }
    }
}

/// The median of a turn, and the process's CPU time for each trip.
fn round_trips(socket: &UdpSocket, to: SocketAddr) -> (Duration, Duration) {
    let mut batch = RecvBatch::new(8, 1_500);
    let cpu = cpu_time();
    let trip = |_| {
        let begin = Instant::now();
        socket.send_batch(&[SendMsg::to(to, b"there and back")]).expect("the device is up");
        socket.recv_into(&mut batch).expect("it comes back");
        begin.elapsed()
    };
    let times = (0..TRIPS).map(trip).collect();
    (median(times), (cpu_time() - cpu) / TRIPS as u32)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
