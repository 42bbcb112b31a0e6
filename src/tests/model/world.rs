//! The sockets of a case, and the model's state of each.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::kernel::{Answer, Kernel};
use super::messages::{Msg, make};
use super::ops::{Config, Kind, Op};
use crate::sys::fault;
use crate::tests::{addr, socket};
use crate::{Ancillary, Backend, BatchSocket, Offload, RecvBatch, SendQueue};

/// One handle on a socket.
pub(super) enum End {
    Plain(UdpSocket),
    Offload(Box<Offload<UdpSocket>>),
}

impl End {
    fn new(socket: UdpSocket, kind: Kind) -> Self {
        match kind {
            Kind::Plain => Self::Plain(socket),
            Kind::Offload { gso, gro } => {
                let builder = Offload::builder().gso(gso).gro(gro);
                Self::Offload(Box::new(builder.build(socket).expect("a UDP socket")))
            }
        }
    }

    pub(super) fn batch_socket(&self) -> &dyn BatchSocket {
        match self {
            Self::Plain(socket) => socket,
            Self::Offload(socket) => &**socket,
        }
    }

    pub(super) fn udp(&self) -> &UdpSocket {
        match self {
            Self::Plain(socket) => socket,
            Self::Offload(socket) => socket.get_ref(),
        }
    }

    pub(super) fn gso(&self) -> bool {
        matches!(self, Self::Offload(socket) if socket.gso())
    }

    /// GSO batches that were not offered to the kernel so far.
    pub(super) fn not_offered(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Offload(socket) => socket.counters().not_offered,
        }
    }

    pub(super) fn gro(&self) -> bool {
        matches!(self, Self::Offload(socket) if socket.gro())
    }
}

/// A deferred error: met after messages, and to be returned by the next call in that direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    pub(super) errno: i32,
    /// The handle that met it.
    pub(super) clone: usize,
}

/// A message that is still the caller's, though a part of it has left: it was segmented in user
/// space, and is completed when it is offered again, or fails.
#[derive(Debug)]
pub(super) struct Partial {
    /// The handle that began it.
    pub(super) clone: usize,
    pub(super) data: Vec<u8>,
    /// Datagrams that have left.
    pub(super) sent: usize,
}

/// A handle, and the expected values of its counters.
pub(super) struct Clone {
    pub(super) end: End,
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// A socket that the library serves.
pub(super) struct Served {
    pub(super) addr: SocketAddr,
    pub(super) kind: Kind,
    pub(super) clones: Vec<Option<Clone>>,
    pub(super) owed_sends: VecDeque<Owed>,
    pub(super) owed_receives: VecDeque<Owed>,
    /// Errors that a call need not return, since they are in the error queue as well.
    pub(super) tolerated: Vec<i32>,
    pub(super) tolerated_sends: Vec<i32>,
    pub(super) partial: Option<Partial>,
    /// The datagrams that wait in it, each with the number of the message that it came in.
    pub(super) waiting: VecDeque<(u32, Vec<u8>)>,
}

impl Served {
    fn new(kind: Kind, errors: bool) -> Self {
        let socket = socket();
        socket.set_nonblocking(true).expect("a UDP socket");
        enlarge_receive_buffer(&socket);
        if errors {
            Ancillary::ERRORS.require(&socket).expect("a UDP socket");
        }
        Self::of(socket, kind)
    }

    fn of(socket: UdpSocket, kind: Kind) -> Self {
        let addr = addr(&socket);
        let first = Clone { end: End::new(socket, kind), sent: 0, received: 0 };
        Self {
            addr,
            kind,
            clones: vec![Some(first)],
            owed_sends: VecDeque::new(),
            owed_receives: VecDeque::new(),
            tolerated: Vec::new(),
            tolerated_sends: Vec::new(),
            partial: None,
            waiting: VecDeque::new(),
        }
    }

    /// The handle that a byte means. D12: the handle that met an error returns it.
    pub(super) fn pick(&self, clone: usize, owed: &VecDeque<Owed>) -> usize {
        if let Some(owed) = owed.front() {
            return owed.clone;
        }
        let open: Vec<_> = (0..self.clones.len()).filter(|i| self.clones[*i].is_some()).collect();
        open[clone % open.len()]
    }

    pub(super) fn clone(&mut self, i: usize) -> &mut Clone {
        self.clones[i].as_mut().expect("an open handle")
    }

    /// The messages that wait in it.
    pub(super) fn messages(&self) -> usize {
        if self.clones.iter().flatten().any(|clone| clone.end.gro()) {
            let mut groups: Vec<_> = self.waiting.iter().map(|(group, _)| group).collect();
            groups.dedup();
            return groups.len();
        }
        self.waiting.len()
    }
}

/// The largest receive buffer that the system allows.
fn enlarge_receive_buffer(socket: &UdpSocket) {
    socket2::SockRef::from(socket).set_recv_buffer_size(4 << 20).expect("a UDP socket");
}

pub(super) struct World {
    pub(super) kernel: Arc<Mutex<Kernel>>,
    pub(super) backend: Backend,
    pub(super) errors: bool,
    /// Whether the kernel has GSO.
    pub(super) segmentation: bool,
    pub(super) sockets: [Served; 2],
    /// The receivers, which use the standard library.
    pub(super) far: [UdpSocket; 2],
    /// The sender of what is received.
    pub(super) near: Offload<UdpSocket>,
    pub(super) queue: SendQueue,
    pub(super) queued: Vec<Msg>,
    pub(super) batches: HashMap<(usize, usize), RecvBatch>,
    pub(super) next: u32,
}

impl World {
    pub(super) fn new(config: Config) -> Self {
        fault::script([]);
        let near = Offload::new(socket()).expect("a UDP socket");
        let far = [socket(), socket()];
        far.iter().for_each(enlarge_receive_buffer);
        Self {
            kernel: Arc::default(),
            backend: config.backend,
            errors: config.errors,
            segmentation: near.gso(),
            sockets: config.sockets.map(|kind| Served::new(kind, config.errors)),
            far,
            near,
            queue: SendQueue::new(1 << 20),
            queued: Vec::new(),
            batches: HashMap::new(),
            next: 0,
        }
    }

    pub(super) fn kernel(&self) -> MutexGuard<'_, Kernel> {
        lock(&self.kernel)
    }

    pub(super) fn step(&mut self, op: Op) {
        match op {
            Op::Send { socket, clone, way, batch, again, thread } => {
                let msgs = make(batch, &mut self.next, self.segmentation);
                self.send(socket, clone, way, &msgs, again, thread);
            }
            Op::Receive { socket, clone, way, space, thread } => {
                self.receive(socket, clone, way, space, thread);
            }
            Op::Fill { socket, batch } => self.fill(socket, batch),
            Op::Push { batch } => {
                for msg in make(batch, &mut self.next, self.segmentation) {
                    self.push(msg);
                }
            }
            Op::Flush { socket, clone, thread } => self.flush(socket, clone, thread),
            Op::Drop(count) => {
                for _ in 0..count {
                    assert_eq!(self.queue.discard_front(), !self.queued.is_empty());
                    self.queued.drain(..self.queued.len().min(1));
                }
                self.compare_queue();
            }
            Op::Clone { socket } => self.clone(socket),
            Op::Close { socket, clone } => self.close(socket, clone),
            Op::Select(backend) => self.backend = backend,
            Op::ClearPool => crate::clear_pool(),
            Op::SetGso { socket, clone, on } => {
                let served = &mut self.sockets[socket];
                let clone = served.pick(clone, &VecDeque::new());
                if let End::Offload(socket) = &served.clone(clone).end {
                    assert_eq!(socket.set_gso(on), on && self.segmentation);
                }
            }
            Op::Script { direction, events } => {
                let events = events.into_iter().flat_map(|(after, event)| {
                    std::iter::repeat_n(super::kernel::Event::Pass, after).chain([event])
                });
                self.kernel().script(direction, events);
            }
        }
    }

    fn clone(&mut self, socket: usize) {
        const MOST: usize = 4;
        let served = &mut self.sockets[socket];
        if served.clones.iter().flatten().count() < MOST {
            let first = served.clones.iter().flatten().next().expect("one is open");
            let end = End::new(first.end.udp().try_clone().expect("a descriptor"), served.kind);
            served.clones.push(Some(Clone { end, sent: 0, received: 0 }));
        }
    }

    fn close(&mut self, socket: usize, clone: usize) {
        let served = &mut self.sockets[socket];
        let clone = served.pick(clone, &VecDeque::new());
        let mut owed = served.owed_sends.iter().chain(&served.owed_receives);
        // D12: a handle's deferred error goes with it.
        let owes = owed.any(|owed| owed.clone == clone);
        if !owes && served.clones.iter().flatten().count() > 1 {
            served.clones[clone] = None;
        }
    }

    /// Ends the case: deferred errors are returned, and waiting datagrams received.
    pub(super) fn finish(&mut self) {
        self.kernel().clear();
        for socket in 0..2 {
            self.finish_receives(socket);
            self.finish_sends(socket);
        }
        let kernel = lock(&self.kernel);
        assert_eq!(
            [0, 1].map(|socket| kernel.deferred(socket)),
            [None; 2],
            "deferred errors are lost"
        );
    }

    /// Makes the state that of a new case with the same sockets, after [`finish`](Self::finish).
    pub(super) fn renew(mut self, config: Config) -> Self {
        self.backend = config.backend;
        self.batches.clear();
        self.sockets = self.sockets.map(|served| {
            let first = served.clones.into_iter().flatten().next().expect("one is open");
            let socket = match first.end {
                End::Plain(socket) => socket,
                End::Offload(socket) => socket.into_inner(),
            };
            Served::of(socket, served.kind)
        });
        self
    }
}

fn lock(kernel: &Mutex<Kernel>) -> MutexGuard<'_, Kernel> {
    kernel.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a call of the library, of up to `datagrams` on `socket` where `waiting` messages wait, with
/// the model's kernel beneath; on a thread of its own if asked. Also returns the kernel's answers.
pub(super) fn under<R: Send>(
    kernel: &Arc<Mutex<Kernel>>,
    backend: &mut Backend,
    thread: bool,
    (socket, waiting, datagrams): (usize, usize, usize),
    call: impl FnOnce() -> R + Send,
) -> (R, Vec<Answer>) {
    lock(kernel).begin(socket, waiting, datagrams);
    let (chosen, decider) = (*backend, Arc::clone(kernel));
    let run = move || {
        // The choice is a thread's own in unit tests.
        chosen.make_process_default().expect("both are here");
        fault::decide_by(move |call, offered| lock(&decider).decide(call, offered));
        let result = call();
        fault::script([]);
        (result, Backend::current())
    };
    let (result, now) = if thread {
        thread::scope(|scope| scope.spawn(run).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    } else {
        run()
    };
    *backend = now;
    (result, lock(kernel).answers())
}
