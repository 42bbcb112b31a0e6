//! Transfers between endpoints, also over a lossy path.

use std::sync::Arc;

use mmsg::Offload;
use quinn::{Endpoint, EndpointConfig, TokioRuntime, TransportConfig};

use crate::kit::{Pair, bind, run, run_threaded, socket, transfer};
use crate::own;
use crate::relay::Relay;

#[test]
fn one_connection_transfers_both_ways_in_gso_batches() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        transfer(&server, &client, 16 << 20, 1).await;
        transfer(&client, &server, 4 << 20, 2).await;
        if pair.server_socket.offload().state().gso() {
            for socket in [&pair.server_socket, &pair.client_socket] {
                let counters = socket.offload().state().counters();
                assert!(counters.sent_batches > 0 && counters.sent_segments > 1000, "{counters:?}");
                assert!(counters.send_calls < counters.sent / 2, "{counters:?}");
            }
        }
        assert_eq!((pair.server_socket.failed(), pair.client_socket.failed()), (0, 0));
    });
}

#[test]
fn no_batch_is_sent_if_quinn_is_told_so() {
    run(async {
        let mut transport = TransportConfig::default();
        transport.enable_segmentation_offload(false);
        let pair = Pair::with_transport(transport);
        let (client, server) = pair.connect().await;
        transfer(&server, &client, 1 << 20, 1).await;
        transfer(&client, &server, 1 << 20, 2).await;
        for socket in [&pair.server_socket, &pair.client_socket] {
            let counters = socket.offload().state().counters();
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
            let lost = own::lost_packets(&server);
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
            let before = own::remote(&server);
            pair.client.rebind(bind()).expect("another socket");
            transfer(&client, &server, 1 << 20, seed).await;
            transfer(&server, &client, 1 << 20, seed).await;
            assert_ne!(own::remote(&server), before);
            assert_eq!(own::remote(&server).port(), pair.client.local_addr().unwrap().port());
        }
    });
}

/// quinn keeps the buffers made for the first socket. Without GRO they are too short for coalesced messages.
#[test]
fn a_client_moves_from_a_socket_without_gro_to_one_with_it() {
    run(async {
        let pair = Pair::new();
        let without = own::wrap(bind(), Offload::builder().gro(false)).expect("a socket");
        let client = own::endpoint(None, &without).expect("a client");
        let client = own::trusting(client, &pair.trust);
        let pair = Pair { client, ..pair };
        let (client, server) = pair.connect().await;
        transfer(&server, &client, 1 << 20, 0).await;
        own::rebind(&pair.client, &socket());
        transfer(&server, &client, 1 << 20, 1).await;
    });
}

#[test]
fn the_other_end_may_have_the_stock_sockets() {
    run(async {
        let pair = Pair::new();
        let (config, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
        let client = Endpoint::new(config, None, bind(), runtime).expect("a client");
        let client = own::trusting(client, &pair.trust);
        let pair = Pair { client, ..pair };
        let (client, server) = pair.connect().await;
        transfer(&server, &client, 4 << 20, 0).await;
        transfer(&client, &server, 4 << 20, 1).await;
    });
}

#[test]
fn the_paths_mtu_is_found() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        #[cfg(target_os = "linux")]
        {
            let socket = pair.server_socket.offload().get_ref();
            let (level, name) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
            let discovery = crate::common::linux::option(socket, level, name);
            assert_eq!(discovery.expect("a socket"), libc::IP_PMTUDISC_PROBE as u32);
        }
        // Loopback carries the longest datagram that quinn probes by default, 1,452 bytes.
        let mut seed = 0;
        while own::mtu(&server) < 1452 || own::mtu(&client) < 1452 {
            transfer(&server, &client, 64 << 10, seed).await;
            transfer(&client, &server, 64 << 10, seed).await;
            seed += 1;
        }
    });
}
