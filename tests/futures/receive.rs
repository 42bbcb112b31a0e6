//! A dropped receive has taken no datagram.

use mmsg::{AsyncBatchSocket, RecvBatch};

use super::{once, run, udp};
use crate::common::numbered;
use crate::common::sockets::udp4;

#[test]
fn a_dropped_receive_has_taken_nothing() {
    const COUNT: usize = 2_000;
    run(async {
        let ((to, addr), from) = (udp(), udp4());
        let payloads = numbered(COUNT, 8);
        let mut batch = RecvBatch::new(4, 32);
        let mut next = 0;
        // Sends while the receiver rests, so that it is dropped at every stage: before its first poll, while waiting,
        // and after being woken.
        for (i, payload) in payloads.iter().enumerate() {
            let mut receive = Box::pin(to.recv_into(&mut batch));
            if i % 3 > 0 && next == i {
                assert!(once(receive.as_mut()).await.is_none(), "nothing was sent yet");
            }
            from.send_to(payload, addr).expect("loopback takes it");
            if i % 2 == 0 {
                tokio::task::yield_now().await;
            }
            drop(receive);
            if i % 4 == 3 {
                while next <= i {
                    to.recv_into(&mut batch).await.expect("none was lost");
                    for datagram in &batch {
                        assert_eq!(datagram.data(), payloads[next]);
                        next += 1;
                    }
                }
            }
        }
        assert_eq!(next, COUNT);
    });
}
