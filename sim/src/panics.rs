//! Panics of simulated code: caught, kept quiet, and told as text.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Makes the panic hook quiet for simulated code, and leaves it as it was for all other code. Once per process.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                LAST.set(info.to_string().replace('\n', " "));
            } else {
                before(info);
            }
        }));
    });
}

/// Runs simulated code; a panic becomes its message and place.
pub(crate) fn caught<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    QUIET.set(true);
    // The state a panic leaves behind belongs to a process that is about to be crashed.
    let result = catch_unwind(AssertUnwindSafe(body));
    QUIET.set(false);
    result.map_err(|_| LAST.take())
}
