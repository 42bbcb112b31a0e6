//! Each server runs to its end.

#[path = "../../../tests/common/program.rs"]
mod running;

use std::path::Path;

#[test]
fn each_server_answers_all() {
    for program in [env!("CARGO_BIN_EXE_async_io"), env!("CARGO_BIN_EXE_epoll")] {
        let ended = running::Program::start(Path::new(program), [""; 0]).wait();
        assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{program}: {ended:#?}");
        assert_eq!(ended.out, ["1000 datagrams came back"]);
    }
}
