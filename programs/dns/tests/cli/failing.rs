//! A server whose receives all fail.

use std::thread;
use std::time::Instant;

use crate::program::{serve, skip};
use crate::seccomp;

/// It inherits this thread's filter.
#[test]
fn a_lasting_receive_error_is_said_once_a_second() {
    let test = || {
        if let Err(error) = seccomp::deny(&[seccomp::RECVMMSG], libc::ENOMEM) {
            return skip("a_lasting_receive_error", error);
        }
        let begin = Instant::now();
        let server = serve("127.0.0.1:0", &["--threads", "2"]);
        let lines = [(); 3].map(|()| server.program.err_line());
        assert!(lines.iter().all(|line| line.starts_with("error: cannot receive: ")), "{lines:?}");
        server.program.signal(libc::SIGTERM);
        let ended = server.program.wait();
        assert_eq!(ended.status, Some(0));
        let seconds = begin.elapsed().as_secs() as usize + 2;
        assert!((3..=seconds).contains(&(3 + ended.err.len())), "{seconds} s: {:?}", ended.err);
    };
    thread::spawn(test).join().expect("no panic");
}
