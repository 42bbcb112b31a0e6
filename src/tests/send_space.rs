//! On macOS a message would wait for ever if its payload fits the send buffer, but not together with its control data.

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
