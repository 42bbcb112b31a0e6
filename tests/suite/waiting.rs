//! How long a receive waits, and for how many datagrams.

use std::time::{Duration, Instant};

use crate::common::recv::{RECEIVES, in_one_receive};
use crate::common::sockets::{addr, settle, udp4};
use crate::common::threads::Call;
use crate::common::{tick, would_block};

/// Signals meanwhile end nothing.
#[test]
fn a_blocking_receive_does_not_wait_for_the_whole_batch() {
    for receive in RECEIVES {
        let socket = udp4();
        // Without a time limit: a receive that waits for more hangs the test.
        socket.set_read_timeout(None).expect("no timeout");
        let to = addr(&socket);
        let own = socket.try_clone().expect("a second descriptor");
        let receiver = Call::blocked(move || receive(&own));
        #[cfg(unix)]
        (0..3).for_each(|_| super::signals::interrupt(&receiver));
        socket.send_to(b"the only one", to).expect("it is taken");
        assert_eq!(receiver.result().expect("one is there"), [b"the only one"]);
    }
}

#[test]
fn the_read_timeout_is_honoured() {
    for receive in RECEIVES {
        let socket = udp4();
        let timeout = Duration::from_millis(60);
        socket.set_read_timeout(Some(timeout)).expect("a timeout");
        // In a thread, so that a receive that never returns is noticed.
        let own = socket.try_clone().expect("a second descriptor");
        let receiver = Call::blocked(move || {
            let start = Instant::now();
            (receive(&own), start.elapsed())
        });
        let (result, waited) = receiver.result();
        assert!(would_block(result));
        assert!(waited >= timeout - tick(), "gave up after {waited:?}");
    }
}

#[test]
fn a_nonblocking_socket_says_that_nothing_is_there() {
    for receive in RECEIVES {
        let socket = udp4();
        socket.set_nonblocking(true).expect("an open socket");
        assert!(would_block(receive(&socket)));
        for data in [b"one", b"two"] {
            socket.send_to(data, addr(&socket)).expect("it is taken");
        }
        settle();
        for sent in [b"one", b"two"].chunks(in_one_receive(2)) {
            assert_eq!(receive(&socket).expect("two are there"), sent);
        }
        assert!(would_block(receive(&socket)));
    }
}
