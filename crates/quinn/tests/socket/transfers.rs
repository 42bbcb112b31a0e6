//! Transfers between endpoints, also over a lossy path.

use std::sync::Arc;

use mmsg::Offload;
use mmsg::options::Fragmentation;
use mmsg_quinn::{Socket, TokioRuntime};
use quinn::{Endpoint, EndpointConfig, TransportConfig};

use crate::kit::{Pair, bind, run, run_threaded, socket, transfer};
use crate::relay::Relay;

#[test]
fn one_connection_transfers_both_ways_in_gso_batches() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        transfer(&server, &client, 16 << 20, 1).await;
        transfer(&client, &server, 4 << 20, 2).await;
        if pair.server_socket.offload().gso() {
            for socket in [&pair.server_socket, &pair.client_socket] {
                let counters = socket.offload().counters();
                assert!(counters.sent_batches > 0 && counters.sent_segments > 1000, "{counters:?}");
                assert!(counters.send_calls < counters.sent / 2, "{counters:?}");
            }
        }
        assert_eq!((pair.server_socket.failed(), pair.client_socket.failed()), (0, 0));
    });
}

#[test]
fn e16_no_batch_is_sent_if_quinn_is_told_so() {
    run(async {
        let mut transport = TransportConfig::default();
        transport.enable_segmentation_offload(false);
        let pair = Pair::with_transport(transport);
        let (client, server) = pair.connect().await;
        transfer(&server, &client, 1 << 20, 1).await;
        transfer(&client, &server, 1 << 20, 2).await;
        for socket in [&pair.server_socket, &pair.client_socket] {
            let counters = socket.offload().counters();
            assert_eq!((counters.sent_batches, counters.sent_segments), (0, 0), "{counters:?}");
        }
    });
}

#[test]
fn fifty_connections_transfer_at_once() {
    let fifty = async {
        let pair = Pair::new();
        let mut tasks = Vec::new();
        for seed in 0..50 {
            let (client, server) = pair.connect().await;
            let both = async move {
                transfer(&server, &client, 256 << 10, seed).await;
                transfer(&client, &server, 64 << 10, seed).await;
            };
            tasks.push(tokio::spawn(both));
        }
        for task in tasks {
            task.await.expect("a whole transfer");
        }
    };
    run_threaded(fifty);
}

#[test]
fn one_and_five_percent_of_loss_are_made_up_for() {
    for percent in [1, 5] {
        run_threaded(async {
            let pair = Pair::new();
            let relay = Relay::start(pair.addr(), percent, 7).await;
            let (client, server) = pair.connect_to(relay.addr()).await;
            transfer(&server, &client, 2 << 20, 3).await;
            transfer(&client, &server, 1 << 20, 4).await;
            let lost = server.stats().path.lost_packets;
            assert!(relay.dropped() > 0 && lost > 0, "{} dropped, {lost} lost", relay.dropped());
        });
    }
}

#[test]
fn a_client_that_moves_three_times_loses_nothing() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        transfer(&server, &client, 1 << 20, 0).await;
        for seed in 1..4 {
            let before = server.remote_address();
            pair.client.rebind(bind()).expect("another socket");
            transfer(&client, &server, 1 << 20, seed).await;
            transfer(&server, &client, 1 << 20, seed).await;
            assert_ne!(server.remote_address(), before);
            assert_eq!(server.remote_address().port(), pair.client.local_addr().unwrap().port());
        }
    });
}

/// quinn keeps the buffers made for the first socket. Without GRO they are too short for coalesced messages.
#[test]
fn a_client_moves_from_a_socket_without_gro_to_one_with_it() {
    run(async {
        let pair = Pair::new();
        let without = Socket::new(bind(), Offload::builder().gro(false)).expect("a socket");
        let mut client = Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            None,
            Arc::new(without),
            Arc::new(TokioRuntime::default()),
        )
        .expect("a client");
        client.set_default_client_config(pair.trust.clone());
        let pair = Pair { client, ..pair };
        let (client, server) = pair.connect().await;
        transfer(&server, &client, 1 << 20, 0).await;
        pair.client.rebind_abstract(socket()).expect("another socket");
        transfer(&server, &client, 1 << 20, 1).await;
    });
}

#[test]
fn the_paths_mtu_is_found() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        if let Ok(setting) = Fragmentation::of(pair.server_socket.offload().get_ref()) {
            assert_eq!(setting, Fragmentation::Probe);
        }
        // Loopback carries the longest datagram that quinn probes by default, 1,452 bytes.
        let mut seed = 0;
        while server.stats().path.current_mtu < 1452 || client.stats().path.current_mtu < 1452 {
            transfer(&server, &client, 64 << 10, seed).await;
            transfer(&client, &server, 64 << 10, seed).await;
            seed += 1;
        }
    });
}
