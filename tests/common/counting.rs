//! An allocator that counts each thread's requests.
//!
//! A test binary makes it the global allocator:
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count of all requests.
pub struct Counting;

/// The requests of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// New allocations and reallocations.
    pub allocations: usize,
    /// Bytes of all of these.
    pub bytes: usize,
}

impl Counts {
    pub const NONE: Self = Self { allocations: 0, bytes: 0 };
}

thread_local! {
    // Without a destructor or lazy initialization, so that it never allocates and lives as long as the thread.
    static COUNTS: Cell<Counts> = const { Cell::new(Counts::NONE) };
}

fn count(bytes: usize) {
    let Counts { allocations, bytes: before } = COUNTS.get();
    COUNTS.set(Counts { allocations: allocations + 1, bytes: before + bytes });
}

/// Runs `call` and also returns this thread's requests during the call.
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

// SAFETY: every request goes unchanged to the system's allocator, and its answer comes back unchanged. The counting
// neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as for `alloc`; `memory` came from the system's allocator, like all memory here.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}
