//! The thread's arenas.

use std::cell::Cell;

use crate::arena::MmsgBuf;

// That of the thread's calls, and that of calls within them.
thread_local!(static ARENAS: [Cell<Option<Box<MmsgBuf>>>; 2] = const { [Cell::new(None), Cell::new(None)] });

/// Runs `call` with an arena of this thread. A panic frees it.
///
/// The second one serves a call within `call`. A new one serves a call within that, and one while the thread ends and its
/// arenas are already gone.
#[inline]
pub(crate) fn with<R>(call: impl FnOnce(&mut MmsgBuf) -> R) -> R {
    let kept = ARENAS.try_with(|[first, second]| first.take().or_else(|| second.take()));
    let mut arena = kept.ok().flatten().unwrap_or_default();
    let result = call(&mut arena);
    let _ = ARENAS.try_with(|[first, second]| {
        if let Some(inner) = first.replace(Some(arena)) {
            second.set(Some(inner));
        }
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SendMsg;
    use std::cell::RefCell;
    use std::net::UdpSocket;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Grows the arena to this many messages, by a send of as many.
    fn grow(arena: &mut MmsgBuf, messages: usize) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
        let msg = SendMsg::to(socket.local_addr().expect("it is bound"), b"");
        arena.send(&socket, &vec![msg; messages]).expect("loopback takes them");
    }

    #[test]
    fn an_arena_comes_back_and_is_lent_again() {
        with(|arena| grow(arena, 100));
        assert_eq!(with(|arena| arena.capacity()), 128);
    }

    #[test]
    fn a_call_within_a_call_gets_another_arena() {
        for round in 0..3 {
            with(|outer| {
                assert_eq!(outer.capacity(), if round == 0 { 0 } else { 2 });
                grow(outer, 2);
                with(|inner| {
                    assert_eq!(inner.capacity(), if round == 0 { 0 } else { 4 });
                    grow(inner, 4);
                });
            });
        }
    }

    #[test]
    fn a_panic_frees_the_arena() {
        with(|arena| grow(arena, 8));
        let panicked = catch_unwind(AssertUnwindSafe(|| with(|_| panic!("expected"))));
        assert!(panicked.is_err());
        assert_eq!(with(|arena| arena.capacity()), 0);
    }

    #[test]
    fn calls_work_while_the_thread_ends() {
        struct AtExit(std::sync::mpsc::Sender<usize>);
        impl Drop for AtExit {
            fn drop(&mut self) {
                let capacity = with(|arena| {
                    grow(arena, 4);
                    arena.capacity()
                });
                self.0.send(capacity).expect("the test waits for it");
            }
        }
        thread_local!(static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) });
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Registered before the arena, which its first use registers. The platform decides which of the two is
            // dropped first.
            AT_EXIT.set(Some(AtExit(sender)));
            with(|arena| grow(arena, 1));
        })
        .join()
        .expect("the thread ends in peace");
        assert_eq!(receiver.recv(), Ok(4));
    }
}
