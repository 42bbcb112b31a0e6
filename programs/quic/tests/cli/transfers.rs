//! Files arrive unchanged, with ECN and offload in use.

use crate::kit::{Figures, Folder, PAIRS, client, get, serve, stop};
use crate::running::{loopbacks, skip};

#[test]
fn each_pair_of_sockets_transfers_files_of_every_size_whole() {
    for (of_server, of_client) in PAIRS {
        for addr in loopbacks() {
            let folder = Folder::new();
            let server = serve(&folder, addr, of_server);
            let sizes = [0, 1, 1200, 65_536, 3 << 20];
            for len in sizes {
                let data = folder.file("file", len);
                get(&server, &folder, "file", &data, &["--socket", of_client]);
            }
            let figures = stop(server);
            figures.assert_served(sizes.len() as u64, sizes.len() as u64);
            assert_eq!(figures.get("", "bytes "), sizes.iter().sum::<usize>() as u64);
        }
    }
}

#[test]
fn a_file_in_a_folder_of_the_folder() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("root/deep")).expect("a new folder");
    let data = folder.file("deep/file", 1000);
    let server = serve(&folder, "127.0.0.1:0", "mmsg");
    get(&server, &folder, "deep/file", &data, &[]);
}

/// Checks that a bulk transfer carries ECN marks and uses offload in both directions.
#[track_caller]
fn assert_at_work(sender: &Figures, receiver: &Figures) {
    // quinn may leave the handshake unmarked until the path is known to keep marks.
    let marked = |figures: &Figures, way| {
        let (all, marked) = (figures.get(way, "datagrams "), figures.get(way, "with ECN "));
        assert!(marked <= all && all - marked < 10, "{way} {figures:?}");
    };
    marked(sender, "sent: ");
    marked(receiver, "received: ");
    if sender.get("sent: ", "segmented ") == 0 {
        return skip("GSO of QUIC", "this system has no segmentation offload");
    }
    let in_each = |figures: &Figures, way| {
        assert!(figures.get(way, "segmented ") > 0, "{way} {figures:?}");
        let (datagrams, messages) = (figures.get(way, "datagrams "), figures.get(way, "messages "));
        datagrams / messages
    };
    assert!(in_each(sender, "sent: ") >= 2, "{sender:?}");
    assert!(in_each(receiver, "received: ") >= 2, "{receiver:?}");
}

#[test]
fn ecn_and_offload_are_at_work_both_ways() {
    for (of_server, of_client) in PAIRS {
        let folder = Folder::new();
        let data = folder.file("file", 8 << 20);
        let server = serve(&folder, "127.0.0.1:0", of_server);
        let receiver = get(&server, &folder, "file", &data, &["--socket", of_client]);
        let sender = stop(server);
        sender.assert_served(1, 1);
        assert_at_work(&sender, &receiver);
        if of_server == "mmsg" && sender.get("sent: ", "segmented ") > 0 {
            let kernel = |words| sender.get("to the kernel: ", words);
            assert_eq!(kernel("datagrams "), sender.get("sent: ", "datagrams "), "{sender:?}");
            // quinn forms the batches, and each is one call.
            assert!(kernel("in GSO batches ") / kernel(", GSO batches ") >= 2, "{sender:?}");
            assert!(kernel("system calls ") <= sender.get("sent: ", "calls "), "{sender:?}");
            assert_eq!(kernel("rejected "), 0, "{sender:?}");
        }
        // Packets sent after the receiver had closed do not arrive.
        let sent = sender.get("sent: ", "datagrams ");
        let received = receiver.get("received: ", "datagrams ");
        assert!(received <= sent, "{sender:?} {receiver:?}");
    }
}

#[test]
fn fifty_connections_at_once_get_all_of_it() {
    for (of_server, of_client) in PAIRS {
        let folder = Folder::new();
        let len = folder.file("file", 300_000).len();
        let server = serve(&folder, "127.0.0.1:0", of_server);
        let args = ["--connections", "50", "--times", "2", "--socket", of_client];
        let ended = client(&folder, server.addr, "load", "file", &args);
        assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
        let expected = format!("connections 50, whole 50, bytes {} in ", 100 * len);
        assert!(ended.out[0].starts_with(&expected), "{ended:?}");
        stop(server).assert_served(50, 100);
    }
}

#[test]
fn fifty_programs_at_once_get_all_of_it() {
    let folder = Folder::new();
    let data = folder.file("file", 100_000);
    let server = serve(&folder, "127.0.0.1:0", "mmsg");
    std::thread::scope(|scope| {
        for i in 0..50 {
            let (addr, folder, data) = (server.addr, &folder, &data);
            scope.spawn(move || {
                let copy = folder.arg(&format!("copy{i}"));
                let ended = client(folder, addr, "get", "file", &["-o", &copy]);
                assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
                assert!(crate::kit::same(copy.as_ref(), data), "the copy is the same");
            });
        }
    });
    stop(server).assert_served(50, 50);
}

#[test]
fn an_echo_is_measured_beside_downloads() {
    let folder = Folder::new();
    folder.file("file", 1 << 20);
    let server = serve(&folder, "127.0.0.1:0", "mmsg");
    for (connections, idle) in [("2", false), ("0", true)] {
        let args = ["--connections", connections, "--seconds", "1"];
        let ended = client(&folder, server.addr, "echo", "file", &args);
        assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
        assert!(ended.out[0].starts_with("echoes "), "{ended:?}");
        assert!(!ended.out[0].starts_with("echoes 0,"), "{ended:?}");
        assert_eq!(ended.out[0].ends_with(", 0 bytes/s"), idle, "{ended:?}");
    }
}
