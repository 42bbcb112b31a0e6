//! A client that changes its port and continues the same download.

use crate::kit::{Folder, PAIRS, get, serve, stop};
use crate::running::loopbacks;

#[test]
fn a_client_that_moves_halfway_gets_all_of_it() {
    for (of_server, of_client) in PAIRS {
        for addr in loopbacks() {
            let folder = Folder::new();
            let data = folder.file("file", 4 << 20);
            let server = serve(&folder, addr, of_server);
            get(&server, &folder, "file", &data, &["--rebind", "--socket", of_client]);
            // All bytes came over one connection.
            stop(server).assert_served(1, 1);
        }
    }
}
