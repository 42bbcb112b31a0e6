//! Calls that run out of memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::ptr;
use std::thread;
use std::time::Duration;

use mmsg::errors::PushError;
use mmsg::{
    BatchSocket, BatchSocketExt, Offload, RecvBatch, RecvMsg, SendMeta, SendMsg, SendQueue,
};

/// The system's allocator, which a thread can make fail.
struct LimitedAllocator;

#[global_allocator]
static ALLOCATOR: LimitedAllocator = LimitedAllocator;

thread_local! {
    /// Requests of at least this many bytes fail.
    static LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
    /// How many more requests succeed before one fails, counted from 1. 0: none fails.
    static LEFT: Cell<usize> = const { Cell::new(0) };
    /// Bytes that the thread holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Whether a request of this size fails.
fn fails(size: usize) -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    size >= LIMIT.get() || left == 1
}

// SAFETY: every request goes unchanged to the system's allocator or fails, as any request may. Nothing here allocates
// or unwinds.
unsafe impl GlobalAlloc for LimitedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return ptr::null_mut();
        }
        HELD.set(HELD.get().wrapping_add(layout.size()));
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return ptr::null_mut();
        }
        HELD.set(HELD.get().wrapping_add(layout.size()));
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promises are passed on; the system's allocator gave the memory.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Runs `call` while requests of `limit` or more bytes fail.
fn limited<R>(limit: usize, call: impl FnOnce() -> R) -> R {
    LIMIT.set(limit);
    let result = call();
    LIMIT.set(usize::MAX);
    result
}

/// Runs `call` on a new thread, which has no arena.
fn on_a_new_thread<R: Send>(call: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let running = scope.spawn(call);
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs `call` while its allocation `n`, from 1, fails. Also returns whether it made as many.
fn failing<R>(n: usize, call: impl FnOnce() -> R) -> (R, bool) {
    LEFT.set(n);
    let result = call();
    (result, LEFT.take() == 0)
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    socket
}

/// Makes room for [`ALL`] datagrams, as far as the system permits.
fn set_receive_buffer(socket: &UdpSocket) {
    let set = mmsg::options::set_recv_buffer(socket, 1 << 20).expect("a socket");
    assert!(set >= 200 << 10, "{ALL} small datagrams do not fit {set} bytes");
}

#[test]
fn a_batch_without_memory_is_an_error() {
    // Memory may be missing for the payload, the headers or any other part of a slot.
    for (slots, len) in [(1, 100_000), (64, 1_500), (1_024, 1), (1_024, 65_535)] {
        for limit in [100, 1_000, 10_000, 60_000] {
            let error = limited(limit, || RecvBatch::try_new(slots, len));
            let error = error.expect_err("there is no memory");
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{slots} of {len}, {limit}");
        }
        let before = HELD.get();
        let batch = RecvBatch::try_new(slots, len).expect("there is again");
        let most = slots * (len + 1_024) + 4_096;
        assert!(HELD.get().wrapping_sub(before) <= most, "{slots} of {len}");
        assert_eq!(batch.slots(), slots);
    }
}

#[test]
fn a_queue_without_memory_is_an_error_and_unchanged() {
    let mut queue = SendQueue::new(usize::MAX);
    queue.push(&SendMsg::new(b"one")).expect("there is memory");
    let long = SendMsg::new(&[0; 60_000]);
    assert_eq!(limited(50_000, || queue.push(&long)), Err(PushError::OutOfMemory));
    for len in [60_000, u32::MAX as usize / 2] {
        let msg = SendMsg::new(b"header");
        let result = limited(50_000, || queue.push_with(&msg, len, |_| panic!("no space")));
        assert_eq!(result, Err(PushError::OutOfMemory));
        assert_eq!(
            (std::io::Error::from(PushError::OutOfMemory).kind(), queue.len()),
            (ErrorKind::OutOfMemory, 1)
        );
    }
    assert!(PushError::OutOfMemory.to_string().contains("no memory"));
    queue.push_with(&SendMsg::new(&[]), 60_000, |space| Some(space.len())).expect("there is again");
    assert!(queue.iter().map(|msg| msg.len()).eq([3, 60_000]));
}

#[test]
fn a_queue_holds_at_most_six_times_its_bound() {
    let (meta, data) = (SendMeta::new().with_hop_limit(1), vec![0; 60_000]);
    let small = SendMsg::new(&data[..100]);
    let kinds = [
        SendMsg::new(&data),
        small,
        small.with_meta(&meta),
        SendMsg::new(&[]).with_meta(&meta),
        SendMsg::new(&[]),
    ];
    let before = HELD.get();
    let held = || HELD.get().wrapping_sub(before);
    for bound in [740_000, 1 << 20] {
        let mut queue = SendQueue::new(bound);
        for (stages, kind) in (0..4).flat_map(|_| kinds).enumerate() {
            while queue.push(&kind).is_ok() {}
            // Also with both stages in use.
            for gone in [0, stages % 3, queue.len() / 2, queue.len() / 2, queue.len() / 2] {
                (0..gone).for_each(|_| _ = queue.discard_front());
                while queue.push(&kind).is_ok() {}
                assert!(held() <= 6 * bound, "{} for a bound of {bound}", held());
            }
            if stages % 2 == 0 {
                queue.clear();
            }
            while queue.discard_front() {}
        }
        drop(queue);
        assert_eq!(held(), 0);
    }
    // Pushes that are taken back leave nothing.
    let mut queue = SendQueue::new(1_000);
    for _ in 0..1_000 {
        let everybody = std::iter::repeat(([127, 0, 0, 1], 9).into());
        assert_eq!(queue.push_to_all(&small.with_meta(&meta), everybody), Err(PushError::TooLong));
    }
    assert!(held() <= 6_000, "{} for a bound of 1,000", held());
}

/// Checks that exactly these datagrams arrived.
#[track_caller]
fn check_arrived(far: &UdpSocket, expected: &[&[u8]]) {
    let mut buffer = [0; 2_000];
    for expected in expected {
        let len = far.recv(&mut buffer).expect("it was sent");
        assert_eq!(&buffer[..len], *expected);
    }
    far.set_nonblocking(true).expect("an open socket");
    assert_eq!(far.recv(&mut buffer).expect_err("no more").kind(), ErrorKind::WouldBlock);
    far.set_nonblocking(false).expect("an open socket");
}

/// Runs `call` within closures of receives, as many as `depth`.
fn nested<R>(
    depth: usize,
    inside: &UdpSocket,
    call: &mut dyn FnMut() -> std::io::Result<R>,
) -> std::io::Result<R> {
    if depth == 0 {
        return call();
    }
    let (mut memory, mut result) = ([0; 8], None);
    let mut buffers = [IoSliceMut::new(&mut memory)];
    let mut each = |_, _: mmsg::Message<'_>| result = Some(nested(depth - 1, inside, call));
    inside.recv_slices(&mut buffers, &mut each)?;
    result.expect("a datagram was there")
}

/// A call that moves up to [`ALL`] datagrams, and returns how many.
type Moving<'s> = (&'s str, &'s (dyn Fn() -> std::io::Result<usize> + Sync));

const ALL: usize = 300;
/// Datagrams of a message with an explicit segment size, more than the headers that other messages made room for.
const OWN: usize = 60;

/// Makes the call again and again on new threads, each time with another allocation that fails, until all succeed.
/// `then` makes up for what the call has not moved.
fn with_each_failure((name, call): Moving<'_>, then: impl Fn(usize) + Sync) {
    for depth in 0..4 {
        for n in 1.. {
            let failed = on_a_new_thread(|| {
                let inside = socket();
                let to = inside.local_addr().expect("it is bound");
                (0..depth).for_each(|_| _ = inside.send_to(b"data", to).expect("it is taken"));
                let (result, failed) = failing(n, || nested(depth, &inside, &mut || call()));
                let moved = match result {
                    Ok(moved) => {
                        assert!(moved > 0, "{name} {depth} {n}");
                        moved
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{name} {depth} {n}");
                        assert!(failed, "{name} {depth} {n}");
                        0
                    }
                };
                then(moved);
                failed
            });
            if !failed {
                break;
            }
        }
    }
}

/// What a call did not send, the next one sends: each message arrives once.
#[test]
fn a_send_with_any_failed_allocation_loses_no_datagram() {
    let (near, far) = (socket(), socket());
    set_receive_buffer(&far);
    let to = far.local_addr().expect("it is bound");
    let numbers: Vec<_> = (0..ALL as u32).map(u32::to_be_bytes).collect();
    let msgs: Vec<_> = numbers.iter().map(|data| SendMsg::to(to, data)).collect();
    let parts: Vec<_> = numbers[..OWN].iter().map(|data| IoSlice::new(data)).collect();
    let own = SendMsg::gather(&parts).with_dest(to).with_segment_size(4);
    let offload = Offload::new(near.try_clone().expect("a descriptor")).expect("a UDP socket");
    let plain = Offload::builder().gso(false).gro(false);
    let plain = plain.build(near.try_clone().expect("a descriptor")).expect("a UDP socket");
    let sockets: [(&str, &(dyn BatchSocket + Sync)); 3] =
        [("plain", &near), ("offload", &offload), ("without gso", &plain)];
    let expected: Vec<_> = numbers.iter().map(|data| &data[..]).collect();
    for (what, socket) in sockets {
        let rest = |moved: usize| {
            let mut rest = &msgs[moved..];
            while !rest.is_empty() {
                rest = &rest[socket.send_batch(rest).expect("there is memory")..];
            }
            check_arrived(&far, &expected);
        };
        with_each_failure((what, &|| socket.send_batch(&msgs)), rest);
        let each = || socket.send_each(&msgs, |index, error| panic!("{index}: {error}"));
        with_each_failure((what, &each), rest);
        let queue = std::sync::Mutex::new(SendQueue::new(1 << 20).grouped_by_dest());
        let fill = || {
            let mut queue = queue.lock().expect("no test fails");
            queue.clear();
            msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
        };
        fill();
        let rest_of_queue = |moved: usize| {
            assert_eq!(queue.lock().expect("no test fails").len(), ALL - moved);
            rest(moved);
            fill();
        };
        let flush = || socket.flush(&mut queue.lock().expect("no test fails"));
        with_each_failure((what, &flush), rest_of_queue);
        let flush_each = || {
            let mut queue = queue.lock().expect("no test fails");
            socket.flush_each(&mut queue, |_, error| panic!("{error}"))
        };
        with_each_failure((what, &flush_each), rest_of_queue);
    }
    // A message that is segmented in user space is sent as a whole.
    let rest = |moved: usize| {
        if moved == 0 {
            assert_eq!(plain.send_batch(&[own]).expect("there is memory"), 1);
        }
        check_arrived(&far, &expected[..OWN]);
    };
    let send_own = || plain.send_each([own], |_, error| panic!("{error}"));
    with_each_failure(("explicit segment size", &send_own), rest);
}

#[test]
fn a_receive_with_any_failed_allocation_leaves_the_datagrams() {
    let far = socket();
    set_receive_buffer(&far);
    let to = far.local_addr().expect("it is bound");
    let fill = || (0..ALL).for_each(|_| _ = far.send_to(b"data", to).expect("it is taken"));
    let offload = Offload::builder().gro(false).build(far.try_clone().expect("a descriptor"));
    let offload = offload.expect("a UDP socket");
    let sockets: [(&str, &(dyn BatchSocket + Sync)); 2] = [("plain", &far), ("offload", &offload)];
    let rest = |moved: usize| {
        check_arrived(&far, &vec![&b"data"[..]; ALL - moved]);
        fill();
    };
    fill();
    for (what, socket) in sockets {
        let recv_batch = || {
            let mut memory = [[0; 8]; ALL];
            socket.recv_batch(&mut memory.each_mut().map(|buffer| RecvMsg::new(buffer)))
        };
        with_each_failure((what, &recv_batch), rest);
        let recv_slices = || {
            let mut memory = [[0; 8]; ALL];
            let mut buffers = memory.each_mut().map(|buffer| IoSliceMut::new(buffer));
            socket.recv_slices(&mut buffers, &mut |_, _| ())
        };
        with_each_failure((what, &recv_slices), rest);
        let recv_into = || socket.recv_into(&mut RecvBatch::try_new(ALL, 8)?);
        with_each_failure((what, &recv_into), rest);
    }
}

/// The report stays in the queue.
#[cfg(target_os = "linux")]
#[test]
fn a_drain_with_any_failed_allocation_leaves_the_reports() {
    use mmsg::error_queue::{Report, drain_errors};

    let (from, refusing) = (socket(), socket());
    let to = refusing.local_addr().expect("it is bound");
    refusing.connect(to).expect("connecting only stores the peer");
    mmsg::Ancillary::ERRORS.require(&from).expect("Linux has it");
    let provoke = || _ = from.send_batch(&[SendMsg::to(to, b"data")]).expect("it is taken");
    provoke();
    let drain = || drain_errors(&from, &mut [Report::EMPTY; 2]);
    let rest = |moved: usize| {
        let left = drain_errors(&from, &mut [Report::EMPTY; 2]).expect("there is memory");
        assert_eq!(moved + left, 1);
        provoke();
    };
    with_each_failure(("drain_errors", &drain), rest);
}

/// Such a future cannot keep the messages that it has taken from the iterator, so it ends.
#[cfg(all(unix, feature = "tokio"))]
#[test]
fn a_future_without_memory_says_how_many_it_has_sent() {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use mmsg::AsyncBatchSocket;

    let msgs = [SendMsg::new(b"data"); ALL];
    let one_poll = async |n| {
        let (near, far) = tokio::net::UnixDatagram::pair().expect("a pair");
        socket2::SockRef::from(&near).set_send_buffer_size(1).expect("the least there is");
        near.writable().await.expect("a socket");
        let mut future = pin!(near.send_each(&msgs, |index, error| panic!("{index}: {error}")));
        let mut poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let (polled, failed) = failing(n, &mut poll);
        let sent = match polled {
            Poll::Pending => return assert!(!failed, "{n}"),
            Poll::Ready(Ok(sent)) => sent,
            Poll::Ready(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{n}");
                0
            }
        };
        assert!(failed && sent < ALL, "{n}: {sent}");
        let (far, mut buffer) = (far.into_std().expect("a socket"), [0; 8]);
        (0..sent).for_each(|i| _ = far.recv(&mut buffer).unwrap_or_else(|e| panic!("{i}: {e}")));
        far.recv(&mut buffer).expect_err("it was not counted");
    };
    for n in 1..10 {
        on_a_new_thread(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(one_poll(n));
        });
    }
}
