//! A socket whose buffer is full, and GSO batches that the kernel rejects.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use mmsg::Offload;
use mmsg_quinn::Socket;
use quinn::AsyncUdpSocket;
use socket2::SockRef;

use crate::common::linux::set_option;
use crate::kit::{bind, content, run, send, transmit};
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
fn e15_a_full_socket_says_so_and_wakes_every_poller() {
    with_far_end("a full socket", |_far| {
        let (socket, to) = stalled();
        run(async {
            let socket = Arc::new(Socket::new(socket, Offload::builder()).unwrap());
            let data = [0; 1200];
            send(&socket, &transmit(to, &data)).await;
            let mut sent = 1;
            let error = loop {
                match socket.try_send(&transmit(to, &data)) {
                    Ok(()) => sent += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            assert!(sent < 20, "{sent} sent: only the kernel may queue datagrams");

            let mut pollers = [(); 3].map(|()| Arc::clone(&socket).create_io_poller());
            poll_fn(|cx| {
                let waits = |poller: &mut std::pin::Pin<Box<dyn quinn::UdpPoller>>| {
                    poller.as_mut().poll_writable(cx).is_pending()
                };
                assert!(pollers.iter_mut().all(waits));
                std::task::Poll::Ready(())
            })
            .await;
            resolve();
            for mut poller in pollers {
                poll_fn(|cx| poller.as_mut().poll_writable(cx)).await.expect("an open socket");
            }
            send(&socket, &transmit(to, &data)).await;
            assert_eq!((socket.offload().counters().sent, socket.failed()), (sent + 1, 0));
        });
    });
}

#[test]
fn s1_a_rejected_batch_goes_as_its_datagrams_in_the_same_call() {
    let (std, receiver) = (bind(), bind());
    reject_batches(&std);
    run(async {
        let socket = Arc::new(Socket::new(std, Offload::builder()).unwrap());
        let data = content(9_500, 1);
        let mut batch = transmit(receiver.local_addr().unwrap(), &data);
        (batch.segment_size, batch.ecn) = (Some(1000), Some(quinn::udp::EcnCodepoint::Ect0));
        send(&socket, &batch).await;
        let mut buffer = [0; 2000];
        for datagram in data.chunks(1000) {
            let len = receiver.recv(&mut buffer).expect("a datagram");
            assert!(buffer[..len] == *datagram);
        }
        let counters = socket.offload().counters();
        assert_eq!((counters.sent, counters.sent_batches, socket.failed()), (10, 0, 0));
        assert_eq!(counters.rejected_size, u64::from(socket.offload().gso()));
    });
}

#[test]
fn a_batch_that_is_sent_in_part_is_counted_exactly() {
    with_far_end("a batch in part", |_far| {
        let (socket, to) = stalled();
        reject_batches(&socket);
        run(async {
            let socket = Arc::new(Socket::new(socket, Offload::builder()).unwrap());
            let data = [0; 63 * 1000 + 1];
            let mut batch = transmit(to, &data);
            batch.segment_size = Some(1000);
            send(&socket, &batch).await;
            let (sent, failed) = (socket.offload().counters().sent, socket.failed());
            assert!(sent > 0 && failed > 0 && sent + failed == 64, "{sent} and {failed}");
            let next = socket.try_send(&batch).expect_err("it is full");
            assert_eq!(next.kind(), io::ErrorKind::WouldBlock);
        });
    });
}
