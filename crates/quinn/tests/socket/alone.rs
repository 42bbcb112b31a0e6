//! The socket without endpoints: its methods are called as endpoints call them.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mmsg::{Ancillary, BatchSocket, Ecn, Offload, RecvBatch, SendMsg};
use quinn::udp::{EcnCodepoint, RecvMeta};

use crate::kit::{bind, recv, run, run_threaded, send, socket, transmit};
use crate::own;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A socket whose receives time out after a minute, so that a broken test fails.
fn plain() -> UdpSocket {
    let socket = bind();
    let patience = std::time::Duration::from_secs(60);
    socket.set_read_timeout(Some(patience)).expect("a timeout");
    let _ = (Ancillary::TOS | Ancillary::DEST).enable(&socket).expect("an open socket");
    socket
}

#[test]
fn a_transmit_has_its_ecn_bits_and_its_source() {
    run(async {
        let (socket, receiver) = (socket(), plain());
        let to = receiver.local_addr().unwrap();
        let marks = [
            (EcnCodepoint::Ect0, Ecn::Ect0),
            (EcnCodepoint::Ect1, Ecn::Ect1),
            (EcnCodepoint::Ce, Ecn::Ce),
        ];
        for (ecn, expected) in marks {
            let mut transmit = transmit(to, b"hello");
            (transmit.ecn, transmit.src_ip) = (Some(ecn), Some(LOCALHOST));
            send(&socket, &transmit).await;
            let mut batch = RecvBatch::new(4, 1500);
            receiver.recv_into(&mut batch).expect("a datagram");
            let datagram = batch.iter().next().expect("a datagram");
            assert_eq!(datagram.data(), b"hello");
            assert_eq!(datagram.addr(), socket.offload().get_ref().local_addr().ok());
            if cfg!(target_os = "linux") {
                assert_eq!(datagram.meta().ecn(), Some(expected));
            }
        }
    });
}

#[test]
fn a_segmented_transmit_is_its_datagrams_in_order() {
    run(async {
        let (socket, receiver) = (socket(), plain());
        let data = crate::kit::content(10 * 1200 - 700, 1);
        let mut transmit = transmit(receiver.local_addr().unwrap(), &data);
        transmit.segment_size = Some(1200);
        send(&socket, &transmit).await;
        let mut buffer = [0; 2000];
        let received: Vec<_> = (0..10)
            .map(|_| {
                receiver.recv(&mut buffer).map(|len| buffer[..len].to_vec()).expect("a datagram")
            })
            .collect();
        assert!(received.iter().map(|d| &d[..]).eq(data.chunks(1200)));
        let counters = socket.offload().state().counters();
        if socket.offload().state().gso() {
            assert_eq!((counters.sent_batches, counters.send_calls), (1, 1));
        }
    });
}

#[test]
fn received_datagrams_have_their_ecn_bits_destination_and_segments() {
    run(async {
        let (socket, sender) = (socket(), Offload::new(bind()).unwrap());
        let to = socket.offload().get_ref().local_addr().unwrap();
        let data = crate::kit::content(5000, 2);
        let msgs = data.chunks(1200).map(|d| SendMsg::to(to, d).with_ecn(Ecn::Ect0));
        let msgs: Vec<_> = msgs.collect();
        assert_eq!(sender.send_batch(&msgs).unwrap(), 5);

        let mut received = Vec::new();
        while received.len() < data.len() {
            for (meta, data) in recv(&socket, 65_535).await {
                received.extend(data);
                assert_eq!(meta.addr, sender.get_ref().local_addr().unwrap());
                assert!(meta.stride == 1200 || meta.stride == 200, "{meta:?}");
                if cfg!(target_os = "linux") {
                    assert_eq!(
                        (meta.ecn, meta.dst_ip),
                        (Some(EcnCodepoint::Ect0), Some(LOCALHOST))
                    );
                }
            }
        }
        assert!(received == data);
    });
}

/// An endpoint keeps its short buffers when `Endpoint::rebind_abstract` replaces a socket without GRO.
#[test]
fn buffers_for_one_datagram_each_receive_without_gro() {
    run(async {
        let (socket, sender) = (socket(), Offload::new(bind()).unwrap());
        let to = socket.offload().get_ref().local_addr().unwrap();
        let data = crate::kit::content(2400, 3);
        let msgs: Vec<_> = data.chunks(1200).map(|d| SendMsg::to(to, d)).collect();
        // This GSO batch arrives before GRO is off, and may be lost as a coalesced message.
        assert_eq!(sender.send_batch(&msgs).unwrap(), 2);
        let mut received = Vec::new();
        while !received.ends_with(&data) {
            for (_, data) in recv(&socket, 1472).await {
                received.extend(data);
            }
            assert!(!socket.offload().state().gro());
            assert_eq!(sender.send_batch(&msgs).unwrap(), 2);
        }
    });
}

#[test]
fn a_send_that_fails_is_counted_and_the_next_is_sent() {
    run(async {
        let (socket, receiver) = (socket(), plain());
        let to = receiver.local_addr().unwrap();
        send(&socket, &transmit(to, &[0; 70_000])).await;
        send(&socket, &transmit(to, b"next")).await;
        assert_eq!((socket.failed(), socket.offload().state().counters().sent), (1, 1));
        let mut buffer = [0; 100];
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 4);
        // Broadcast is not enabled on the socket, so all three datagrams fail.
        let mut forbidden = transmit(([255; 4], 9).into(), &[0; 2500]);
        forbidden.segment_size = Some(1000);
        send(&socket, &forbidden).await;
        assert_eq!((socket.failed(), socket.offload().state().counters().sent), (4, 1));
    });
}

/// Counts logged events.
pub struct Log(pub Arc<AtomicUsize>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        matches!(metadata.target(), "mmsg_quinn::socket" | "mmsg_noq::socket")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn errors_are_logged_once_a_minute_and_probes_of_the_mtu_never() {
    let logged = Arc::new(AtomicUsize::new(0));
    let _log = tracing::subscriber::set_default(Log(Arc::clone(&logged)));
    run(async {
        let (socket, receiver) = (socket(), plain());
        send(&socket, &transmit(receiver.local_addr().unwrap(), &[0; 70_000])).await;
        assert_eq!(logged.load(Ordering::Relaxed), 0);
        for _ in 0..2 {
            send(&socket, &transmit(([255; 4], 9).into(), b"forbidden")).await;
        }
        assert_eq!((logged.load(Ordering::Relaxed), socket.failed()), (1, 3));
    });
}

#[test]
fn several_threads_send_at_once() {
    run_threaded(async {
        let (socket, receiver) = (socket(), plain());
        let to = receiver.local_addr().unwrap();
        let tasks = (0..4u8).map(|task| {
            let socket = socket.clone();
            tokio::spawn(async move {
                for count in 0..25 {
                    send(&socket, &transmit(to, &[task, count])).await;
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("it does not panic");
        }
        let mut received = BTreeSet::new();
        while received.len() < 100 {
            let mut buffer = [0; 2];
            receiver.recv(&mut buffer).expect("a datagram");
            assert!(received.insert(buffer), "twice: {buffer:?}");
        }
        assert_eq!((socket.failed(), socket.offload().state().counters().sent), (0, 100));
    });
}

#[test]
fn a_socket_that_was_shut_down_is_an_error() {
    run(async {
        let std = bind();
        std.connect("127.0.0.1:9").unwrap();
        let socket = own::wrap(std, Offload::builder()).unwrap();
        let _ =
            socket2::SockRef::from(socket.offload().get_ref()).shutdown(std::net::Shutdown::Both);
        let mut memory = vec![0; 65_535];
        let mut metas = [RecvMeta::default()];
        let result = poll_fn(|cx| {
            own::poll_recv(&socket, cx, &mut [IoSliceMut::new(&mut memory)], &mut metas)
        });
        assert_eq!(result.await.unwrap_err().kind(), io::ErrorKind::NotConnected);
    });
}

#[test]
fn without_a_runtime_it_is_an_error() {
    assert!(own::wrap(bind(), Offload::builder()).is_err());
}
