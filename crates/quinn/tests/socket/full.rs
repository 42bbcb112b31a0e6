//! A socket whose buffer is full, and GSO batches that the kernel rejects.

use std::fs;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::task::Poll;

use mmsg::Offload;
use quinn::TransportConfig;
use socket2::SockRef;

use crate::common::linux::set_option;
use crate::kit::{Pair, bind, content, run, send, transfer, transmit, try_send};
use crate::own::{self, Sender};
use crate::veth::{DEVICE, NEAR, ip, with_far_end};

/// No host has this address: datagrams to it wait for a hardware address, and fill the socket's buffer.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);

/// A socket with a short buffer, and an address that takes nothing until `resolve`.
fn stalled() -> (UdpSocket, SocketAddr) {
    let limit = format!("/proc/sys/net/ipv4/neigh/{DEVICE}/mcast_solicit");
    fs::write(limit, "1000").expect("requests for the hardware address go on");
    let socket = UdpSocket::bind((NEAR, 0)).expect("an address of the device");
    SockRef::from(&socket).set_send_buffer_size(8 << 10).expect("a short buffer");
    (socket, (NOBODY, 9).into())
}

fn resolve() {
    ip(&format!("neigh replace {NOBODY} lladdr 02:00:00:00:00:03 dev {DEVICE}"))
        .expect("a hardware address");
}

/// Makes the kernel reject GSO batches with `EINVAL`, by turning the socket's checksums off.
fn reject_batches(socket: &UdpSocket) {
    set_option(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).expect("a socket option");
}

#[test]
fn a_full_socket_says_so_and_wakes_every_sender() {
    with_far_end(|_far| {
        let (socket, to) = stalled();
        run(async {
            let socket = own::wrap(socket, Offload::builder()).unwrap();
            let data = [0; 1200];
            send(&socket, &transmit(to, &data)).await;
            let mut sent = 1;
            while try_send(&socket, &transmit(to, &data)) {
                sent += 1;
            }
            assert!(sent < 20, "{sent} sent: only the kernel may queue datagrams");

            let mut senders = [(); 3].map(|()| Sender::new(&socket));
            poll_fn(|cx| {
                let waits =
                    |sender: &mut Sender| sender.poll_send(cx, &transmit(to, &data)).is_pending();
                assert!(senders.iter_mut().all(waits));
                Poll::Ready(())
            })
            .await;
            resolve();
            for mut sender in senders {
                poll_fn(|cx| sender.poll_send(cx, &transmit(to, &data))).await;
            }
            assert_eq!((socket.offload().state().counters().sent, socket.failed()), (sent + 3, 0));
        });
    });
}

#[test]
fn a_rejected_batch_goes_as_its_datagrams_in_the_same_call() {
    let (std, receiver) = (bind(), bind());
    reject_batches(&std);
    run(async {
        let socket = own::wrap(std, Offload::builder()).unwrap();
        let data = content(9_500, 1);
        let mut batch = transmit(receiver.local_addr().unwrap(), &data);
        (batch.segment_size, batch.ecn) = (Some(1000), Some(quinn::udp::EcnCodepoint::Ect0));
        send(&socket, &batch).await;
        let mut buffer = [0; 2000];
        for datagram in data.chunks(1000) {
            let len = receiver.recv(&mut buffer).expect("a datagram");
            assert!(buffer[..len] == *datagram);
        }
        let counters = socket.offload().state().counters();
        assert_eq!((counters.sent, counters.sent_batches, socket.failed()), (10, 0, 0));
        assert_eq!(counters.rejected_size, u64::from(socket.offload().state().gso()));
    });
}

#[test]
fn a_batch_that_is_sent_in_part_is_counted_exactly() {
    with_far_end(|_far| {
        let (socket, to) = stalled();
        reject_batches(&socket);
        run(async {
            let socket = own::wrap(socket, Offload::builder()).unwrap();
            let data = [0; 63 * 1000 + 1];
            let mut batch = transmit(to, &data);
            batch.segment_size = Some(1000);
            send(&socket, &batch).await;
            let (sent, failed) = (socket.offload().state().counters().sent, socket.failed());
            assert!(sent > 0 && failed > 0 && sent + failed == 64, "{sent} and {failed}");
            assert!(!try_send(&socket, &batch), "it is full");
        });
    });
}

#[test]
fn endpoints_whose_batches_are_rejected_connect_and_transfer() {
    let sockets = [bind(), bind()].map(|std| {
        reject_batches(&std);
        std
    });
    run(async {
        let sockets = sockets.map(|std| own::wrap(std, Offload::builder()).unwrap());
        let [server, client] = &sockets;
        let pair = Pair::on(server.clone(), client.clone(), TransportConfig::default());
        let (client, server) = pair.connect().await;
        transfer(&client, &server, 1 << 20, 1).await;
        transfer(&server, &client, 1 << 20, 2).await;
        for socket in sockets {
            let counters = socket.offload().state().counters();
            assert_eq!((socket.failed(), counters.sent_batches), (0, 0), "{counters:?}");
            assert!(counters.rejected_size > 0 || !socket.offload().state().gso(), "{counters:?}");
        }
    });
}
