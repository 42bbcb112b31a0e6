//! A storm of signals while a million datagrams move.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use std::os::unix::thread::JoinHandleExt;

use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg, SendQueue};

use crate::common::recv::{memory, recv_msgs};
use crate::common::sockets::{connected, unix_pair};
use crate::common::{no_failure, repetitions, skip};

/// Datagrams in flight, few enough for any receive buffer.
const WINDOW: usize = 128;
/// Kinds of sockets.
const KINDS: usize = 3;

/// Signals that the handlers have counted.
static HANDLED: AtomicUsize = AtomicUsize::new(0);

fn handle_signals() {
    extern "C" fn count(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: an all-zero sigaction is valid and has no flags, so no SA_RESTART. The handler adds to an atomic,
        // which is allowed at any point of any thread.
        let installed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut())
        };
        assert_eq!(installed, 0);
    });
}

/// Sends signals to both threads until they end.
fn storm(threads: [JoinHandle<()>; 2]) {
    while !threads.iter().all(JoinHandle::is_finished) {
        for thread in &threads {
            // SAFETY: the thread has not been joined, so its handle is valid whether it runs or not.
            unsafe { libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, libc::SIGUSR2) };
        }
        thread::yield_now();
    }
    for thread in threads {
        thread.join().expect("no error, nothing lost and nothing doubled");
    }
}

/// Repeats a call until it moves something. A signal may end it only on a socket with a timeout.
fn again(timed: bool, mut call: impl FnMut() -> io::Result<usize>) -> usize {
    loop {
        match call() {
            Err(error) if timed && error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.expect("a signal is no other error"),
        }
    }
}

/// Sends windows of numbered datagrams in every way, and waits for an answer after each window.
fn send(socket: &impl BatchSocket, timed: bool, windows: usize) {
    let mut queue = SendQueue::new(1 << 16);
    let mut answer = RecvBatch::for_gro(1);
    for window in 0..windows {
        let first = window * WINDOW;
        let data: Vec<_> =
            (first..first + WINDOW).map(|number| (number as u32).to_be_bytes()).collect();
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data)).collect();
        let mut sent = 0;
        match window % 3 {
            0 => {
                while sent < WINDOW {
                    sent += again(timed, || socket.send_batch(&msgs[sent..]));
                }
            }
            1 => {
                while sent < WINDOW {
                    sent += again(timed, || socket.send_each(&msgs[sent..], no_failure));
                    assert!(timed || sent == WINDOW, "it blocks");
                }
            }
            _ => {
                msgs.iter().for_each(|msg| queue.push(msg).expect("it is ample"));
                while !queue.is_empty() {
                    again(timed, || socket.flush(&mut queue));
                }
            }
        }
        assert_eq!(again(timed, || socket.recv_into(&mut answer)), 1);
        assert_eq!(
            answer.iter().next().expect("it was counted").data(),
            (first as u32).to_be_bytes()
        );
    }
}

/// Receives every datagram once and answers each window.
fn receive(socket: &impl BatchSocket, timed: bool, windows: usize) {
    let mut batch = RecvBatch::for_gro(8);
    let mut memory = memory(8, 65_535);
    for window in 0..windows {
        let mut seen = [false; WINDOW];
        let mut note = |data: &[u8]| {
            let number = u32::from_be_bytes(data.try_into().expect("a number has four bytes"));
            let at = (number as usize).checked_sub(window * WINDOW).expect("not an earlier one");
            assert!(!std::mem::replace(&mut seen[at], true), "{number} came twice");
        };
        let mut left = WINDOW;
        while left > 0 {
            if window % 2 == 0 {
                again(timed, || socket.recv_into(&mut batch));
                left -= batch.iter().inspect(|datagram| note(datagram.data())).count();
            } else {
                let mut msgs = recv_msgs(&mut memory);
                let count = again(timed, || socket.recv_batch(&mut msgs));
                for datagram in msgs[..count].iter().flat_map(|msg| msg.message().datagrams()) {
                    note(datagram.data());
                    left -= 1;
                }
            }
        }
        let answer = ((window * WINDOW) as u32).to_be_bytes();
        assert_eq!(again(timed, || socket.send_batch(&[SendMsg::new(&answer)])), 1);
    }
}

fn under_signals<S: BatchSocket + Send + 'static>((near, far): (S, S), timed: bool) {
    let windows = repetitions(1_000_000, 6_000) / KINDS / WINDOW + 1;
    let sender = thread::spawn(move || send(&near, timed, windows));
    let receiver = thread::spawn(move || receive(&far, timed, windows));
    storm([sender, receiver]);
}

#[test]
fn a_million_datagrams_under_a_storm_of_signals_come_once_each() {
    handle_signals();
    under_signals(connected(), true);
    let (near, far) = unix_pair();
    for socket in [&near, &far] {
        socket.set_read_timeout(None).expect("no timeout");
        socket.set_write_timeout(None).expect("no timeout");
    }
    under_signals((near, far), false);
    let (near, far) = connected();
    match (Offload::new(near), Offload::new(far)) {
        (Ok(near), Ok(far)) => under_signals((near, far), true),
        (near, far) => skip("signals with GSO and GRO", format_args!("{near:?}, {far:?}")),
    }
    let handled = HANDLED.load(Ordering::Relaxed);
    println!("{handled} signals");
    assert!(handled > 0, "no signal came");
}
