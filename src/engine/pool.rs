//! The thread's pool of arenas.

use std::cell::Cell;

use crate::engine::arena::MmsgBuf;

/// An arena of the pool, and the one below it.
#[derive(Default)]
struct Pooled {
    arena: MmsgBuf,
    below: Option<Box<Pooled>>,
}

thread_local! {
    /// The top of a stack, since an iterator that is being sent may itself send or receive.
    static TOP: Cell<Option<Box<Pooled>>> = const { Cell::new(None) };
}

/// Runs `call` with an arena of this thread's pool, and returns the arena to the pool. A panic frees it.
///
/// While the thread ends and its pool is already gone, the arena lives for this call only.
#[inline]
pub(crate) fn with<R>(call: impl FnOnce(&mut MmsgBuf) -> R) -> R {
    let top = TOP.try_with(|top| {
        let mut taken = top.take()?;
        top.set(taken.below.take());
        Some(taken)
    });
    let mut taken = top.ok().flatten().unwrap_or_default();
    let result = call(&mut taken.arena);
    let _ = TOP.try_with(|top| {
        taken.below = top.take();
        top.set(Some(taken));
    });
    result
}

/// Frees this thread's arenas.
///
/// Otherwise they serve the thread's next calls and are freed when the thread ends. Useful in a
/// long-lived thread that will not see batches as large again.
///
/// ```
/// mmsg::clear_pool(); // After an unusually large batch on a thread that stays.
/// ```
pub fn clear_pool() {
    let _ = TOP.try_with(Cell::take);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn pooled() -> usize {
        TOP.with(|top| {
            let all = top.take();
            let count = std::iter::successors(all.as_ref(), |pooled| pooled.below.as_ref()).count();
            top.set(all);
            count
        })
    }

    #[test]
    fn an_arena_comes_back_and_is_lent_again() {
        with(|arena| arena.reserve_for_test(100));
        assert_eq!(pooled(), 1);
        assert_eq!(with(|arena| arena.capacity()), 128);
        assert_eq!(pooled(), 1);
        clear_pool();
        assert_eq!(with(|arena| arena.capacity()), 0);
    }

    #[test]
    fn a_call_within_a_call_gets_another_arena() {
        with(|outer| {
            outer.reserve_for_test(2);
            with(|inner| assert_eq!(inner.capacity(), 0));
        });
        assert_eq!(pooled(), 2);
    }

    #[test]
    fn a_panic_frees_the_arena_alone() {
        with(|_| with(|_| ()));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            with(|arena| {
                arena.reserve_for_test(8);
                panic!("expected");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!((pooled(), with(|arena| arena.capacity())), (1, 0));
    }

    #[test]
    fn calls_work_while_the_thread_ends() {
        struct AtExit(std::sync::mpsc::Sender<usize>);
        impl Drop for AtExit {
            fn drop(&mut self) {
                let capacity = with(|arena| {
                    arena.reserve_for_test(4);
                    arena.capacity()
                });
                self.0.send(capacity).expect("the test waits for it");
            }
        }
        thread_local!(static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) });
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Registered before the pool, which its first use registers. The platform decides which of the two is
            // dropped first.
            AT_EXIT.set(Some(AtExit(sender)));
            with(|arena| arena.reserve_for_test(1));
        })
        .join()
        .expect("the thread ends in peace");
        assert_eq!(receiver.recv(), Ok(4));
    }
}
