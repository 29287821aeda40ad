//! The memory of a world: this binary's allocator counts what each thread holds. A world runs on a thread of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(bytes: isize) {
    // A thread that ends has no counters any more, and nobody who would ask.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        PEAK.try_with(|peak| peak.set(peak.get().max(live.get())))
    });
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What this thread holds more at its peak, from now until [`Peak::bytes`] is asked.
pub(crate) struct Peak(isize);

impl Peak {
    pub(crate) fn begin() -> Self {
        PEAK.set(LIVE.get());
        Peak(LIVE.get())
    }

    pub(crate) fn bytes(self) -> isize {
        PEAK.get() - self.0
    }
}
