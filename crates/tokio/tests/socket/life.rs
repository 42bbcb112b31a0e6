//! The end of a socket, of a runtime and of a process.

use std::net::UdpSocket as StdSocket;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fmt};

#[cfg(target_os = "linux")]
use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
use mmsg::{BatchSocket, Offload, SendMsg};
use mmsg_tokio::UdpSocket;
use tokio::runtime::Builder;
use tokio::task::{self, LocalSet};

use crate::kit::{MANY, answers, arrive, busy, in_task, quiet, receive, runtime, soon};

/// Queues `count` answers in a task.
async fn queue(socket: &Arc<UdpSocket>, client: &tokio::net::UdpSocket, count: usize) {
    in_task(socket, client, MANY, move |socket, from| async move {
        (0..count).for_each(|_| _ = socket.try_send_to(b"last", from).expect("queued"));
    })
    .await;
}

/// Receives outside of the client's runtime.
fn received(client: tokio::net::UdpSocket) -> usize {
    let client = client.into_std().expect("tokio gives it back");
    crate::common::sockets::settle();
    std::iter::from_fn(|| client.recv(&mut [0; 8]).ok()).count()
}

/// The flusher of the first runtime ends with it, and another one starts in the second. (tokio's socket belongs to the first:
/// it cannot wait any more.)
#[test]
fn what_is_queued_leaves_after_its_runtime_has_ended() {
    for threads in [0, 2] {
        let first = runtime(threads);
        let (socket, client, _) = first.block_on(busy());
        first.block_on(queue(&socket, &client, 3));
        let from = client.local_addr().expect("it is bound");
        let client = client.into_std().expect("tokio gives it back");
        drop(first);
        let second = runtime(threads);
        second.block_on(async {
            let socket = socket.clone();
            let send = async move {
                for _ in 0..5 {
                    socket.try_send_to(b"more", from).expect("queued or sent");
                }
            };
            task::spawn(send).await.expect("it ends");
            tokio::time::sleep(Duration::from_millis(1)).await;
        });
        drop(second);
        drop(socket);
        crate::common::sockets::settle();
        let count = std::iter::from_fn(|| client.recv(&mut [0; 8]).ok()).count();
        assert_eq!(count, 8, "{threads} threads");
    }
}

/// The first runtime is not driven while other tasks send: a thread of its own, one of a runtime with several, and, after a
/// flush, one of a runtime with this thread alone.
#[test]
fn answers_leave_by_the_runtime_whose_task_sends_them() {
    // A `block_on` ends before the flusher has its turn.
    let first = Builder::new_current_thread().event_interval(1).enable_all().build().unwrap();
    let second = runtime(2);
    let (socket, client, _) = second.block_on(busy());
    let to = client.local_addr().expect("it is bound");
    let send = |socket: Arc<UdpSocket>| move || socket.try_send_to(b"more", to).expect("sent");
    for case in 0..3 {
        first.block_on(queue(&socket, &client, 3));
        let send = send(socket.clone());
        match case {
            0 => drop(second.block_on(first.spawn_blocking(send)).expect("it ends")),
            1 => second.block_on(queue(&socket, &client, 1)),
            _ => {
                first.block_on(socket.flush()).expect("it runs");
                runtime(0).block_on(async {
                    task::spawn(async move { send() }).await.expect("it ends");
                    task::yield_now().await;
                });
            }
        }
        second.block_on(answers(&client, 4, 4));
    }
}

/// What the kernel has coalesced for the socket would reach others as one message.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn others_get_single_datagrams_once_the_socket_is_gone() {
    for (waiting, taken, converts) in [(10, 0, true), (10, 1, true), (0, 0, true), (0, 0, false)] {
        let (socket, _, to) = busy().await;
        let socket = Arc::into_inner(socket).expect("the only one");
        let duplicate = socket.as_fd().try_clone_to_owned().expect("a descriptor");
        let duplicate = StdSocket::from(duplicate);
        let sender = StdSocket::bind("127.0.0.1:0").and_then(Offload::new).expect("a socket");
        let send = |count| {
            let msgs = vec![SendMsg::to(to, &[7; 100]); count];
            assert_eq!(sender.send_batch(&msgs).expect("sent"), count);
            crate::common::sockets::settle();
        };
        send(waiting);
        for _ in 0..taken {
            soon(socket.recv(&mut [0; 8])).await.expect("it was sent");
        }
        let error = match converts {
            true => socket.into_std().err(),
            false => {
                drop(socket);
                None
            }
        };
        let error = error.map(|error| error.kind());
        // Datagrams are left, in the kernel or in a batch.
        assert_eq!(error, (waiting > 0).then_some(std::io::ErrorKind::WouldBlock));
        while duplicate.recv(&mut [0; 1500]).is_ok() {}
        send(10);
        for _ in 0..10 {
            assert_eq!(duplicate.recv(&mut [0; 1500]).expect("it was sent"), 100);
        }
    }
}

/// It is no datagram that is left.
#[tokio::test]
async fn a_socket_with_an_error_becomes_stds() {
    let (socket, client, _) = busy().await;
    let nobody = client.local_addr().expect("it is bound");
    drop(client);
    socket.connect(nobody).await.expect("connecting only stores the peer");
    socket.send(b"refused").await.expect("loopback takes it");
    crate::common::sockets::settle();
    Arc::into_inner(socket).expect("the only one").into_std().expect("nothing is left");
}

#[test]
fn tasks_of_a_local_set_have_their_answers_sent() {
    for threads in [0, 2] {
        LocalSet::new().block_on(&runtime(threads), async {
            let (socket, client, _) = busy().await;
            arrive(&client, MANY).await;
            let task = task::spawn_local(async move {
                let from = receive(&socket, MANY).await;
                for _ in 0..MANY {
                    soon(socket.send_to(b"answer", from)).await.expect("queued or sent");
                }
                std::future::pending::<()>().await;
            });
            answers(&client, MANY, 6).await;
            task.abort();
        });
    }
}

/// The child sets an option, and drops its copy of the socket. What was queued is the parent's to send.
#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_sends_nothing_of_its_parents() {
    let runtime = runtime(0);
    let (socket, client, _) = runtime.block_on(busy());
    runtime.block_on(async {
        in_task(&socket, &client, MANY, |socket, from| async move {
            for _ in 0..7 {
                socket.try_send_to(b"last", from).expect("queued");
            }
            // SAFETY: the child of this process makes no call but those of the drop, and exits.
            match unsafe { libc::fork() } {
                0 => {
                    let _ = socket.set_ttl(64); // It would flush first.
                    let socket = Arc::as_ptr(&socket);
                    // SAFETY: nothing of this copy of the process uses the socket again.
                    unsafe { std::ptr::read(socket) };
                    // SAFETY: it ends the child.
                    unsafe { libc::_exit(0) };
                }
                child => {
                    let mut status = 1;
                    // SAFETY: `status` outlives the call.
                    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                    assert_eq!(status, 0);
                }
            }
            crate::common::sockets::settle();
        })
        .await;
        socket.flush().await.expect("the runtime runs");
    });
    assert_eq!(received(client), 7);
}

#[test]
fn the_environment_keeps_sockets_quiet() {
    const CHILD: &str = "MMSG_TOKIO_TEST_CHILD";
    if env::var_os(CHILD).is_some() {
        runtime(0).block_on(async {
            let (socket, client, _) = quiet().await;
            arrive(&client, 200).await;
            receive(&socket, 200).await;
            println!("batches: {}", socket.offload().is_some());
        });
        return;
    }
    for (value, batches) in [("0", false), ("1", true), ("", true)] {
        let mut child = Command::new(env::current_exe().expect("this program"));
        child.args(["--exact", "life::the_environment_keeps_sockets_quiet", "--nocapture"]);
        let output = child.env(CHILD, "1").env("MMSG_OFFLOAD", value).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&format!("batches: {batches}")), "{value}: {text}");
    }
}

#[tokio::test]
async fn options_and_traits_are_tokios() {
    let socket = StdSocket::bind("127.0.0.1:0").expect("a loopback socket");
    socket.set_nonblocking(true).expect("an open socket");
    let socket = UdpSocket::try_from(socket).expect("within a runtime");
    macro_rules! option {
        ($get:ident, $set:ident, $value:expr) => {
            socket.$set($value).expect("an option");
            assert_eq!(socket.$get().expect("an option"), $value);
        };
    }
    option!(broadcast, set_broadcast, true);
    option!(multicast_loop_v4, set_multicast_loop_v4, false);
    option!(ttl, set_ttl, 41);
    #[cfg(target_os = "linux")]
    {
        option!(tos, set_tos, 32);
        option!(tos_v4, set_tos_v4, 96);
    }
    fn is<T: Send + Sync + Unpin + fmt::Debug>(_: &T) {}
    is(&socket);
    assert!(socket.peer_addr().is_err());
    socket.connect(socket.local_addr().expect("it is bound")).await.expect("connected");
    assert_eq!(socket.peer_addr().ok(), socket.local_addr().ok());
    assert_eq!(socket.send(b"self").await.expect("sent"), 4);
    assert_eq!(soon(socket.recv(&mut [0; 8])).await.expect("it arrived"), 4);
}
