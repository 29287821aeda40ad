//! Executor steps a second: ten pairs of tasks, each pair a timer and a channel, hash on, one core.
//!
//! Run: `cargo bench -p sim --bench executor`. A step is one poll of one task.
//!
//! What limits it: about an eighth each goes to the trace's event per step and to the main loop, another to the heap of
//! timers, the rest to the tasks' own channels and wakers (`perf`, 3.5 M steps/s on an idle core).
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's clock"
)]

use std::time::{Duration, Instant};

fn main() {
    let started = Instant::now();
    let run = sim::run(&sim::run::Config { seed: 1, ..Default::default() }, || async {
        let mut pairs = rt::JoinSet::new();
        for pair in 0..10u64 {
            let (send, mut receive) = tokio::sync::mpsc::channel::<u64>(4);
            pairs.spawn("timer", async move {
                for n in 0..100_000 {
                    rt::time::sleep(Duration::from_nanos(1000 + pair)).await;
                    send.send(n).await.expect("the receiver lives");
                }
            });
            pairs.spawn("channel", async move { while receive.recv().await.is_some() {} });
        }
        while pairs.join_next().await.is_some() {}
    });
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "executor: {:.2} M steps/s ({} steps, {:.2} s)",
        run.steps as f64 / seconds / 1e6,
        run.steps,
        seconds
    );
}
