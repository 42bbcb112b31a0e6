//! DNS over TCP, and connections that try to keep others out.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::program::serve;
use crate::raw::query;
use crate::running::PATIENCE;

/// Connects from this loopback address.
fn connect(from: &str, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from: SocketAddr = format!("{from}:0").parse().expect("an address");
    socket.bind(&from.into()).expect("an address of loopback");
    socket.connect(&to.into()).expect("it listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// The query after its length.
fn framed(id: u8) -> Vec<u8> {
    let query = query(id);
    [&(query.len() as u16).to_be_bytes(), &query[..]].concat()
}

/// The ID in the next answer.
fn answered(stream: &mut TcpStream) -> io::Result<u8> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut answer = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut answer)?;
    assert_eq!((answer[2] & 0x80, answer[3], answer[7]), (0x80, 0, 2), "{answer:?}");
    Ok(answer[1])
}

#[test]
fn queries_in_one_segment_are_answered_in_order() {
    let server = serve("127.0.0.1:0", &[]);
    let mut client = connect("127.0.0.1", server.addr);
    let all: Vec<u8> = (0..200).flat_map(framed).collect();
    client.write_all(&all).expect("sent");
    for id in 0..200 {
        assert_eq!(answered(&mut client).expect("an answer"), id);
    }
    // A response gets no answer, and the connection stays open.
    let mut answer = framed(1);
    answer[4] |= 0x80;
    client.write_all(&[answer, framed(2)].concat()).expect("sent");
    assert_eq!(answered(&mut client).expect("an answer"), 2);
    assert_eq!(
        server.stop(),
        ["total: received 0, answered 0, failed 0, dropped by the system 0, by TCP 201"]
    );
}

#[test]
fn a_query_byte_by_byte_holds_up_nobody() {
    let server = serve("127.0.0.1:0", &[]);
    let (mut slow, mut other) =
        (connect("127.0.0.1", server.addr), connect("127.0.0.1", server.addr));
    for byte in framed(7) {
        slow.write_all(&[byte]).expect("sent");
        other.write_all(&framed(byte)).expect("sent");
        assert_eq!(answered(&mut other).expect("an answer"), byte);
    }
    assert_eq!(answered(&mut slow).expect("an answer"), 7);
    server.stop();
}

/// A network gets 2 of 16 places: its third connection ends the one that was idle longest.
#[test]
fn idle_connections_keep_no_network_out() {
    let server = serve("127.0.0.1:0", &["--tcp-connections", "16"]);
    let mut honest = connect("127.0.9.1", server.addr);
    let mut idle: Vec<_> = (0..40)
        .map(|i| {
            let mut stream = connect(&format!("127.0.0.{}", 1 + i), server.addr);
            // Half a query occupies a place.
            stream.write_all(&framed(0)[..5]).expect("sent");
            stream
        })
        .collect();
    for (count, stream) in idle.iter_mut().enumerate().take(38) {
        let end = stream.read(&mut [0]);
        assert!(matches!(end, Ok(0) | Err(_)), "connection {count}: {end:?}");
        assert!(
            !end.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock),
            "{count} still stands"
        );
    }
    honest.write_all(&framed(9)).expect("sent");
    assert_eq!(answered(&mut honest).expect("an answer"), 9);
    // Other networks take all places; a newcomer is still served.
    let _others: Vec<_> =
        (20..40).map(|net| connect(&format!("127.0.{net}.1"), server.addr)).collect();
    let mut newcomer = connect("127.0.50.1", server.addr);
    newcomer.write_all(&framed(10)).expect("sent");
    assert_eq!(answered(&mut newcomer).expect("an answer"), 10);
    server.stop();
}

/// 31 connections full of empty messages, whose answers are none. The server is stopped meanwhile, so that it finds all
/// of them before the query of another network.
#[test]
fn messages_without_an_answer_hold_up_nobody() {
    let server = serve("127.0.0.1:0", &[]);
    let pid = server.program.child.id();
    let full: Vec<_> = (0..31).map(|_| connect("127.0.0.1", server.addr)).collect();
    let mut honest = connect("127.2.0.1", server.addr);
    honest.write_all(&framed(0)).expect("sent");
    assert_eq!(answered(&mut honest).expect("an answer"), 0);
    let before = processor_time(pid);
    for id in 1..=5 {
        server.program.signal(libc::SIGSTOP);
        for mut stream in &full {
            stream.set_nonblocking(true).expect("a socket can be");
            // Until the buffers are full.
            while stream.write(&[0; 1 << 16]).is_ok() {}
        }
        honest.write_all(&framed(id)).expect("sent");
        server.program.signal(libc::SIGCONT);
        assert_eq!(answered(&mut honest).expect("an answer"), id);
    }
    let used = (processor_time(pid) - before) / 5.0;
    assert!(used < 0.5, "{used} s of processor time until an answer");
    server.stop();
}

/// Empty messages do not keep a place: the one that was answered last stays.
#[test]
fn messages_without_an_answer_are_no_activity() {
    let server = serve("127.0.0.1:0", &["--tcp-connections", "16"]);
    let [mut empty, mut used] = [0, 1].map(|id| {
        let mut stream = connect("127.0.0.1", server.addr);
        stream.write_all(&framed(id)).expect("sent");
        assert_eq!(answered(&mut stream).expect("an answer"), id);
        stream
    });
    // The server counts milliseconds. It reads the empty messages before the next connection's queries.
    empty.set_nodelay(true).expect("a TCP socket");
    let (mut other, start) = (connect("127.2.0.1", server.addr), Instant::now());
    while start.elapsed() < Duration::from_millis(20) {
        empty.write_all(&[0; 64]).expect("sent");
        other.write_all(&framed(2)).expect("sent");
        assert_eq!(answered(&mut other).expect("an answer"), 2);
    }
    let mut third = connect("127.0.0.1", server.addr);
    third.write_all(&framed(3)).expect("sent");
    assert_eq!(answered(&mut third).expect("an answer"), 3);
    used.write_all(&framed(4)).expect("sent");
    assert_eq!(answered(&mut used).expect("an answer"), 4);
    server.stop();
}

/// CPU time that a process has used, in seconds.
fn processor_time(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, rest) = stat.rsplit_once(") ").expect("the name is in parentheses");
    let ticks =
        rest.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number"));
    // SAFETY: sysconf takes a number.
    ticks.sum::<f64>() / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

#[test]
fn a_full_table_of_descriptors_serves_newcomers_and_does_not_spin() {
    let server = serve("127.0.0.1:0", &["--tcp-connections", "256"]);
    let pid = server.program.child.id();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count() as u64;
    let limit = libc::rlimit { rlim_cur: open + 8, rlim_max: open + 8 };
    // SAFETY: the limit is read, nothing is written.
    let result =
        unsafe { libc::prlimit(pid as i32, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());

    let before = processor_time(pid);
    let idle: Vec<_> = (0..60).map(|net| connect(&format!("127.1.{net}.1"), server.addr)).collect();
    let mut newcomer = connect("127.2.0.1", server.addr);
    newcomer.write_all(&framed(3)).expect("sent");
    assert_eq!(answered(&mut newcomer).expect("an answer"), 3);
    // With the table full, a spinning server would use all of this time.
    std::thread::sleep(Duration::from_secs(1));
    let used = processor_time(pid) - before;
    assert!(used < 0.5, "{used} s of processor time");
    drop(idle);
    server.stop();
}
