//! Calls that a signal interrupts.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::Once;
use std::time::{Duration, Instant};

use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg};

use super::until::in_time;
use crate::common::sockets::{addr, udp4, unix_pair};
use crate::common::threads::Call;
use crate::common::{no_failure, queue_of};

/// Handles SIGUSR1, which then only interrupts system calls.
fn handle_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: an all-zero sigaction is valid and has no flags, so no SA_RESTART. The handler does nothing, so it
        // may run at any point of any thread.
        let installed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut())
        };
        assert_eq!(installed, 0);
    });
}

pub(super) fn interrupt<R: Send + 'static>(call: &Call<R>) {
    handle_signals();
    // SAFETY: the thread has not been joined, so its handle is valid.
    assert_eq!(unsafe { libc::pthread_kill(call.pthread() as libc::pthread_t, libc::SIGUSR1) }, 0);
}

/// Signals come all the time, and each ends a system call.
#[test]
fn a_deadline_is_kept_under_signals() {
    for waiting in [0, 1, 3] {
        in_time(|| {
            let socket = udp4();
            let to = addr(&socket);
            for _ in 0..waiting {
                socket.send_to(b"here", to).expect("loopback takes it");
            }
            let wait = Duration::from_millis(40);
            let receiver = Call::blocked(move || {
                let (start, mut batch) = (Instant::now(), RecvBatch::new(4, 64));
                let result = socket.recv_more_until(&mut batch, start + wait);
                (result, start.elapsed())
            });
            while !receiver.is_over() {
                interrupt(&receiver);
                std::thread::yield_now();
            }
            let (result, took) = receiver.result();
            assert_eq!(result.expect("a signal is no error"), waiting);
            assert!(took >= wait, "gave up after {took:?}");
            took - wait
        });
    }
}

type SendOne = fn(&Offload<UnixDatagram>, SendMsg<'_>) -> io::Result<usize>;

/// The ways to send one message that is segmented in user space.
const SENDS_OF_ONE: [SendOne; 3] = [
    |socket, msg| socket.send_batch(&[msg]),
    |socket, msg| socket.send_each([msg], no_failure),
    |socket, msg| socket.flush(&mut queue_of([msg])),
];

/// Segments of one message: more datagrams than a socket with a small send buffer accepts.
const PIECES: usize = 60;

fn check_pieces(came: impl Iterator<Item = Vec<u8>>) {
    let came: Vec<_> = came.flat_map(|data| data.try_into().map(u32::from_be_bytes)).collect();
    assert!(came.into_iter().eq(0..PIECES as u32));
}

#[test]
fn a_signal_does_not_end_a_send_in_the_middle_of_a_message() {
    let data: Vec<u8> = (0..PIECES as u32).flat_map(u32::to_be_bytes).collect();
    for send in SENDS_OF_ONE {
        let (near, far) = unix_pair();
        near.set_write_timeout(None).expect("no timeout");
        // On Linux the sender's buffer is soon full; elsewhere the receiver's, or the sender's that is as long as it.
        let size = if cfg!(target_os = "linux") { 1 } else { 2_048 };
        socket2::SockRef::from(&near).set_send_buffer_size(size).expect("a Unix socket");
        socket2::SockRef::from(&far).set_recv_buffer_size(2_048).expect("a Unix socket");
        let near = Offload::new(near).expect("a Unix socket");
        let data = data.clone();
        let sender = Call::blocked(move || send(&near, SendMsg::new(&data).with_segment_size(4)));
        for _ in 0..3 {
            interrupt(&sender);
        }
        let mut buffer = [0; 8];
        check_pieces((0..PIECES).map(|i| {
            let len = far.recv(&mut buffer).expect("it was sent");
            if i % 10 == 0 && !sender.is_over() {
                interrupt(&sender);
            }
            buffer[..len].to_vec()
        }));
        assert_eq!(sender.result().expect("all datagrams were sent"), 1);
    }
}
