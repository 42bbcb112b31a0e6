//! Each receiving call does what tokio's does, quiet and from a batch.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;

use proptest::prelude::*;
use tokio::io::ReadBuf;
use tokio::net;

use crate::common::sockets::settle;
use crate::kit::{runtime, soon};

type Received = io::Result<(Vec<u8>, Option<SocketAddr>)>;

/// How many different calls there are, and which of them leave the datagram.
const CALLS: usize = 19;
const PEEKS: [usize; 9] = [4, 5, 6, 11, 12, 13, 16, 17, 18];

macro_rules! make_call {
    ($name:ident, $socket:ty) => {
        async fn $name(socket: &$socket, call: usize, space: usize) -> Received {
            let (mut data, mut vec) = (vec![0; space], Vec::with_capacity(space));
            let mut buf = ReadBuf::new(&mut data);
            if (14..CALLS).contains(&call) {
                let from = match call {
                    14 => poll_fn(|cx| socket.poll_recv(cx, &mut buf)).await.map(|()| None)?,
                    15 => Some(poll_fn(|cx| socket.poll_recv_from(cx, &mut buf)).await?),
                    16 => poll_fn(|cx| socket.poll_peek(cx, &mut buf)).await.map(|()| None)?,
                    17 => Some(poll_fn(|cx| socket.poll_peek_from(cx, &mut buf)).await?),
                    _ => Some(poll_fn(|cx| socket.poll_peek_sender(cx)).await?),
                };
                return Ok((buf.filled().to_vec(), from));
            }
            let with = |(len, from): (usize, SocketAddr)| (len, Some(from));
            let (len, from) = match call {
                0 => (socket.recv(&mut data).await?, None),
                1 => with(socket.recv_from(&mut data).await?),
                2 => (socket.recv_buf(&mut vec).await?, None),
                3 => with(socket.recv_buf_from(&mut vec).await?),
                4 => (socket.peek(&mut data).await?, None),
                5 => with(socket.peek_from(&mut data).await?),
                6 => (0, Some(socket.peek_sender().await?)),
                7 => (socket.try_recv(&mut data)?, None),
                8 => with(socket.try_recv_from(&mut data)?),
                9 => (socket.try_recv_buf(&mut vec)?, None),
                10 => with(socket.try_recv_buf_from(&mut vec)?),
                11 => (socket.try_peek(&mut data)?, None),
                12 => with(socket.try_peek_from(&mut data)?),
                _ => (0, Some(socket.try_peek_sender()?)),
            };
            data.truncate(len);
            Ok((if vec.is_empty() { data } else { vec }, from))
        }
    };
}
make_call!(own, mmsg_tokio::UdpSocket);
make_call!(tokios, net::UdpSocket);

#[derive(Clone, Debug)]
enum Step {
    /// Datagrams of this length arrive from a client, or from two.
    Arrive { count: usize, len: usize, clients: usize },
    /// This call is made with so much space.
    Call { call: usize, space: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let arrive = (1usize..30, 0usize..40, 1usize..3)
        .prop_map(|(count, len, clients)| Step::Arrive { count, len, clients });
    let call = (0..CALLS, 1usize..50).prop_map(|(call, space)| Step::Call { call, space });
    prop::collection::vec(prop_oneof![1 => arrive, 12 => call], 0..200)
}

async fn run(steps: Vec<Step>) {
    let mine = mmsg_tokio::UdpSocket::bind("127.0.0.1:0").await.expect("a loopback socket");
    let twin = net::UdpSocket::bind("127.0.0.1:0").await.expect("a loopback socket");
    let to = [mine.local_addr().expect("it is bound"), twin.local_addr().expect("it is bound")];
    let clients = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback"));
    let (mut left, mut number) = (0, 0u8);
    for step in steps {
        match step {
            Step::Arrive { count, len, clients: several } => {
                for index in 0..count {
                    number = number.wrapping_add(1);
                    for to in to {
                        clients[index % several].send_to(&vec![number; len], to).expect("sent");
                    }
                }
                left += count;
                settle();
                // tokio learns of them.
                soon(mine.readable()).await.expect("readable");
                soon(twin.readable()).await.expect("readable");
            }
            Step::Call { call, .. } if left == 0 && !(7..14).contains(&call) => {}
            Step::Call { call, space } => {
                let (mine, twin) =
                    (soon(own(&mine, call, space)), soon(tokios(&twin, call, space)));
                let [mine, twin] =
                    [mine.await, twin.await].map(|result| result.map_err(|error| error.kind()));
                assert_eq!(mine, twin, "call {call}, {left} left");
                left -= usize::from(twin.is_ok() && !PEEKS.contains(&call));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn each_receive_returns_what_tokios_returns(steps in steps()) {
        runtime(0).block_on(run(steps));
    }
}
