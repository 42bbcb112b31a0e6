//! The thread's pool of arenas.

use std::cell::RefCell;
use std::mem;

use crate::engine::arena::MmsgBuf;

thread_local! {
    /// A stack, since an iterator that is being sent may itself send or receive. Boxed, so that taking
    /// an arena moves a pointer.
    #[expect(clippy::vec_box)]
    static ARENAS: RefCell<Vec<Box<MmsgBuf>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `call` with an arena of this thread's pool, and returns the arena to the pool, even on a panic.
///
/// While the thread ends and its pool is already gone, the arena lives for this call only.
#[inline]
pub(crate) fn with<R>(call: impl FnOnce(&mut MmsgBuf) -> R) -> R {
    let arena = ARENAS.try_with(|arenas| arenas.borrow_mut().pop()).unwrap_or_default();
    let mut borrowed = Borrowed(Some(arena.unwrap_or_default()));
    call(borrowed.0.get_or_insert_default())
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
    let _ = ARENAS.try_with(|arenas| mem::take(&mut *arenas.borrow_mut()));
}

/// An arena on loan; `Some` until dropped.
struct Borrowed(Option<Box<MmsgBuf>>);

impl Drop for Borrowed {
    #[inline]
    fn drop(&mut self) {
        if let Some(arena) = self.0.take() {
            let _ = ARENAS.try_with(|arenas| arenas.borrow_mut().push(arena));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn pooled() -> usize {
        ARENAS.with_borrow(Vec::len)
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
    fn an_arena_comes_back_from_a_panic() {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            with(|arena| {
                arena.reserve_for_test(8);
                panic!("expected");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(with(|arena| arena.capacity()), 8);
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
