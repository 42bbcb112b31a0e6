//! Sends without space on other kernels than Linux. On macOS a message would wait for ever if its payload fits the send
//! buffer, but not together with its control data. A full Unix peer is ENOBUFS on the BSDs and Apple's systems.

use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use super::*;
use crate::errors::is_too_big;
use crate::{Ecn, SendMeta};

/// macOS's default size of a send buffer.
const BUFFER: usize = 9_216;
const META: SendMeta = SendMeta::new().with_tos(Ecn::Ect0 as u8);

/// Runs a test with two sockets, as on macOS with a send buffer of `bytes`.
fn with_send_buffer(bytes: usize, test: impl Fn(&UdpSocket, &UdpSocket)) {
    Backend::Msg.make_process_default().unwrap();
    fault::set_send_buffer(Some(bytes));
    let (near, far) = (socket(), socket());
    test(&near, &far);
    fault::set_send_buffer(None);
}

fn received(far: &UdpSocket) -> usize {
    far.recv(&mut [0; 2 * BUFFER]).expect("it was sent")
}

/// A blocking call would never return, so the library does not make it.
#[test]
fn a_message_longer_than_the_send_buffer_with_its_control_data_is_too_big() {
    with_send_buffer(BUFFER, |near, far| {
        let to = addr(far);
        let data = [7; BUFFER];
        fault::script([]);
        let never = SendMsg::to(to, &data[..BUFFER - 8]).with_meta(&META);
        assert!(is_too_big(&near.send_batch(&[never]).unwrap_err()));
        assert_eq!(calls(), []);
        // A payload of this size fits without control data, and a slightly shorter one with it.
        let fits = [SendMsg::to(to, &data), SendMsg::to(to, &data[..BUFFER - 64]).with_meta(&META)];
        assert_eq!(near.send_batch(&fits).unwrap(), 2);
        assert_eq!([received(far), received(far)], [BUFFER, BUFFER - 64]);
    });
}

#[test]
fn the_other_messages_of_a_batch_are_sent() {
    with_send_buffer(BUFFER, |near, far| {
        let (to, data) = (addr(far), [7; BUFFER]);
        let long = [&data[..BUFFER / 2], &data[8 + BUFFER / 2..]].map(io::IoSlice::new);
        let short = SendMsg::to(to, b"short").with_meta(&META);
        let msgs = [short, SendMsg::gather(&long).with_dest(to).with_meta(&META), short];
        fault::script([]);
        let mut errors = Vec::new();
        let handled = near.send_each(msgs, |index, error| errors.push((index, is_too_big(&error))));
        assert_eq!((handled.unwrap(), errors), (3, vec![(1, true)]));
        assert_eq!([received(far), received(far)], [5, 5]);
    });
}

/// For a short message the size of the buffer is read only after `EWOULDBLOCK`.
#[test]
fn would_block_is_an_error_where_it_would_be_for_ever() {
    let blocked = [(Call::SendMsg, Fate::Fail(errno::EAGAIN))];
    let send = |near: &UdpSocket, far: &UdpSocket, len: usize| {
        fault::script(blocked);
        let data = [7; 1_400];
        near.set_nonblocking(true).expect("a non-blocking socket");
        let msg = SendMsg::to(addr(far), &data[..len]).with_meta(&META);
        let error = near.send_batch(&[msg]).unwrap_err();
        fault::finish();
        error
    };
    with_send_buffer(1_200, |near, far| {
        assert!(is_too_big(&send(near, far, 1_199)));
        assert_eq!(send(near, far, 1_100).kind(), io::ErrorKind::WouldBlock);
    });
}

/// Runs a test with a Unix socket whose peer is full for `refusals` calls. Returns how many calls were made.
fn with_full_peer(refusals: usize, test: impl Fn(&UnixDatagram)) -> usize {
    let (near, _far) = UnixDatagram::pair().expect("a pair");
    let calls = [Call::SendMmsg, Call::SendMsg];
    fault::set_other_unix(true);
    fault::script(
        calls
            .into_iter()
            .flat_map(|call| std::iter::repeat_n((call, Fate::Fail(errno::ENOBUFS)), refusals)),
    );
    test(&near);
    fault::set_other_unix(false);
    let made = fault::log().len();
    fault::script([]);
    made
}

/// As a client of the system's log needs it. FreeBSD's syslog(3) also asks again.
#[test]
fn a_full_unix_peer_is_waited_for_and_is_no_error_of_a_message() {
    const MSG: SendMsg<'static> = SendMsg::new(b"<13>text");
    for (backend, count) in BACKENDS.into_iter().flat_map(|backend| [(backend, 1), (backend, 3)]) {
        backend.make_process_default().expect("the platform has it");
        let each = |near: &UnixDatagram| {
            near.send_each(&[MSG; 3][..count], |i, error| panic!("{i}: {error}"))
        };
        let waited = with_full_peer(4, |near| assert_eq!(each(near).expect("it waits"), count));
        assert!((5..=8).contains(&waited), "{waited} calls");
        // Neither does a timeout make it an error of the message.
        let is_full = |near: &UnixDatagram| {
            assert_eq!(each(near).expect_err("it is full").kind(), io::ErrorKind::WouldBlock)
        };
        let timed = with_full_peer(10_000, |near| {
            let timeout = Duration::from_millis(20);
            near.set_write_timeout(Some(timeout)).expect("a timeout");
            let start = Instant::now();
            is_full(near);
            assert!(start.elapsed() >= timeout);
        });
        assert!((1..=21).contains(&timed), "{timed} calls"); // One on a slow machine.
        let at_once = with_full_peer(1, |near| {
            near.set_nonblocking(true).expect("an open socket");
            is_full(near);
        });
        assert_eq!(at_once, 1);
    }
}

/// A receiver with a small buffer would never take it.
#[test]
fn a_message_that_may_never_fit_a_unix_peer_fails() {
    let no_buffers = |error: io::Error| error.raw_os_error() == Some(errno::ENOBUFS);
    let long = with_full_peer(1, |near| {
        assert!(no_buffers(near.send_batch(&[SendMsg::new(&[0; 4_000])]).unwrap_err()));
    });
    // On other sockets it may be the queue of an interface.
    let internet = with_full_peer(1, |_| {
        let near = socket();
        assert!(no_buffers(near.send_batch(&[SendMsg::to(addr(&near), b"x")]).unwrap_err()));
    });
    assert_eq!([long, internet], [1; 2]);
}
