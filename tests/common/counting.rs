//! An allocator that counts the requests of each thread.
//!
//! A test binary makes it its own:
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a look at each request.
pub struct Counting;

/// What a thread has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// New allocations and changes of size.
    pub allocations: usize,
    /// Bytes of all of these.
    pub bytes: usize,
}

impl Counts {
    pub const NONE: Self = Self { allocations: 0, bytes: 0 };
}

thread_local! {
    // Without a destructor and without a lazy start, so that it needs no allocation itself and is
    // there as long as the thread runs any code.
    static COUNTS: Cell<Counts> = const { Cell::new(Counts::NONE) };
}

fn count(bytes: usize) {
    let Counts { allocations, bytes: before } = COUNTS.get();
    COUNTS.set(Counts { allocations: allocations + 1, bytes: before + bytes });
}

/// Runs `call`. Also returns this thread's requests meanwhile.
pub fn counted<R>(call: impl FnOnce() -> R) -> (R, Counts) {
    let before = COUNTS.get();
    let result = call();
    let after = COUNTS.get();
    let counts = Counts {
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
    };
    (result, counts)
}

// SAFETY: every request goes to the system's allocator as it came, and its answer comes back as it
// is. The counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises about `layout` are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as for `alloc`; `memory` came from the system's allocator, as all does here.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}
