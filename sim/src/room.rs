//! The sealed room: a fresh thread, inside one poll of one madsim task.
//!
//! A fresh thread, because thread-local state (task ids, hash seeds, random generators of third-party code) then starts
//! the same in every run. Inside a madsim runtime, because it interposes libc's entropy and clocks.

/// Runs `body` in a room sealed with `seed`.
///
/// # Panics
/// If `body` panics, which the simulated code it runs cannot make it do.
pub(crate) fn sealed<T: Send>(seed: u64, body: impl FnOnce() -> T + Send) -> T {
    crate::panics::install();
    std::thread::scope(|scope| {
        let room = std::thread::Builder::new().name("tank".into()).stack_size(STACK_BYTES).spawn_scoped(
            scope,
            || {
                madsim::runtime::Runtime::with_seed_and_config(seed, madsim::Config::default())
                    .block_on(async { body() })
            },
        );
        match room.expect("a thread can be started").join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Debug builds of deep async code need more than the default.
const STACK_BYTES: usize = 8 << 20;
