//! All bytes that were asked for arrive, with offload in use.

use crate::kit::{PAIRS, serve, stop, succeed};
use crate::running::{Program, loopbacks, skip};

#[test]
fn each_pair_of_sockets_transfers_every_size_whole() {
    for (of_server, of_client) in PAIRS {
        for addr in loopbacks() {
            let server = serve(addr, of_server, 250);
            let sizes = [0, 1, 1200, 65_536, 3 << 20];
            for size in sizes {
                let args = ["--socket", of_client, "--bytes", &size.to_string()];
                let figures = succeed("load", server.addr, &args);
                let said = format!("connections 1, whole 1, bytes {size} in ");
                assert!(figures.0.starts_with(&said), "{figures:?}");
            }
            stop(server).assert_served(sizes.len() as u64, sizes.len() as u64, sizes.iter().sum());
        }
    }
}

#[test]
fn fifty_connections_at_once_get_all_of_it() {
    for (of_server, of_client) in PAIRS {
        let server = serve("127.0.0.1:0", of_server, 250);
        let args = ["--connections", "50", "--bytes", "100000", "--socket", of_client];
        let figures = succeed("load", server.addr, &args);
        let said = "connections 50, whole 50, bytes 5000000 in ";
        assert!(figures.0.starts_with(said), "{figures:?}");
        stop(server).assert_served(50, 50, 5_000_000);
    }
}

#[test]
fn the_server_sends_gso_batches() {
    let server = serve("127.0.0.1:0", "mmsg", 250);
    succeed("load", server.addr, &["--bytes", "8000000"]);
    let figures = stop(server);
    figures.assert_served(1, 1, 8_000_000);
    if figures.get(", GSO batches ") == 0 {
        return skip("GSO of QUIC", "this system has no segmentation offload");
    }
    // quinn forms the batches, and each is one call.
    assert!(figures.get("in GSO batches ") / figures.get(", GSO batches ") >= 2, "{figures:?}");
    assert!(figures.get("datagrams ") / figures.get("system calls ") >= 2, "{figures:?}");
    assert_eq!((figures.get("rejected "), figures.get("failed ")), (0, 0), "{figures:?}");
}

#[test]
fn an_echo_is_measured_beside_downloads() {
    let server = serve("127.0.0.1:0", "mmsg", 250);
    for (connections, idle) in [("2", false), ("0", true)] {
        // On a slow machine, none may come back within a second.
        let is_measured = |seconds: &&str| {
            let args = ["--connections", connections, "--seconds", seconds];
            let figures = succeed("echo", server.addr, &args);
            figures.get("echoes ") > 0 && figures.0.contains(", 0 bytes/s; CPU ") == idle
        };
        assert!(["1", "60"].iter().any(is_measured), "{connections} downloads");
    }
}

#[test]
fn errors_are_one_line() {
    let wrong: [(&[&str], i32, &str); 6] = [
        (&[], 2, "Usage: quic"),
        (&["serve"], 2, "<ADDR>"),
        (&["serve", "localhost:0"], 2, "'localhost:0'"),
        (&["serve", "127.0.0.1:0", "--connections", "0"], 2, "'0'"),
        (&["load", "127.0.0.1:9", "--fast"], 2, "'--fast'"),
        // An address reserved for documentation (RFC 5737), which no machine has.
        (&["serve", "192.0.2.1:0"], 1, "192.0.2.1:0: "),
    ];
    for (args, status, words) in wrong {
        let ended = Program::start(env!("CARGO_BIN_EXE_quic"), args).wait();
        assert_eq!((ended.status, ended.out.len()), (Some(status), 0), "{args:?} {ended:#?}");
        assert!(ended.err.join("\n").contains(words), "{args:?}: {ended:#?}");
        assert!(status == 2 || ended.err.len() == 1, "{args:?}: {ended:#?}");
    }
}

/// quinn itself would repeat its first packet for 30 seconds.
#[test]
fn a_port_where_nobody_listens_ends_a_client_with_the_system_s_refusal() {
    for addr in loopbacks() {
        // Connected to itself it rejects all others. (Another test could get the port of a closed socket.)
        let nobody = std::net::UdpSocket::bind(addr).expect("a port");
        let free = nobody.local_addr().expect("it is bound");
        nobody.connect(free).expect("connecting only stores the peer");
        let free = free.to_string();
        for command in ["load", "echo"] {
            let ended = Program::start(env!("CARGO_BIN_EXE_quic"), [command, &free]).wait();
            let said = ended.err.join("\n");
            assert!(said.starts_with(&format!("error: {free}: Connection refused")), "{said}");
            assert_eq!((ended.status, ended.err.len(), ended.out.len()), (Some(1), 1, 0));
        }
    }
}
