//! Frames a second through executor and kernel network: ten pairs of nodes, 100-byte frames, hash on, one core.
//!
//! Run: `cargo bench -p sim --bench frames`. A frame is written, delivered, and read by the other process.
//!
//! What limits it: about a fifth goes to encoding, hashing and digesting what the trace records, the rest is spread over
//! the system calls and the kernel model with nothing above 7 % (`perf`, 2.8 M frames/s on an idle core).
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's clock"
)]

use rt::net::{TcpListener, TcpStream};
use sim::node::{self, Role};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;

const PAIRS: u64 = 10;
const FRAMES: u64 = 100_000;
const PORT: u16 = 7;

fn main() {
    let started = Instant::now();
    let config = sim::run::Config { seed: 1, frame_ports: vec![PORT], ..Default::default() };
    let run = sim::run(&config, || async {
        let received = Arc::new(AtomicU64::new(0));
        for pair in 0..PAIRS {
            let counted = received.clone();
            node::add(&format!("to-{pair}"), Role::Agent, None, move |_| {
                Box::pin(receive(pair, counted.clone()))
            });
            node::add(&format!("from-{pair}"), Role::Client, None, move |_| Box::pin(send(pair)));
        }
        while received.load(Ordering::Relaxed) < PAIRS * FRAMES {
            rt::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    assert!(run.value.is_some() && run.failures.is_empty());
    let frames = (PAIRS * FRAMES) as f64;
    println!(
        "frames: {:.2} M frames/s ({} steps, {} events, {seconds:.2} s)",
        frames / seconds / 1e6,
        run.steps,
        run.events
    );
}

async fn send(pair: u64) {
    let mut stream = TcpStream::connect(&format!("to-{pair}:{PORT}")).await.expect("the peer listens");
    let mut frame = [0; 100];
    frame[3] = 96;
    for _ in 0..FRAMES {
        stream.write_frame(&frame, String::new).await.expect("the peer reads");
    }
}

async fn receive(pair: u64, counted: Arc<AtomicU64>) {
    let listener = TcpListener::bind(&format!("to-{pair}:{PORT}")).await.expect("the port is free");
    let mut stream = listener.accept().await.expect("the peer dials");
    let mut frame = [0; 100];
    while stream.read_exact(&mut frame).await.is_ok() {
        counted.fetch_add(1, Ordering::Relaxed);
    }
}
