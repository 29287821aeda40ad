//! The real host: the same calls that the tank serves, on tokio and loopback.

use rt::net::{Body, TcpListener, TcpStream, read_frame};
use rt::time::{Elapsed, Instant, timeout};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn real<T>(body: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(body)
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("an address").to_string();
    let dialling = rt::spawn("dial", async move { TcpStream::connect(&addr).await.expect("listening") });
    let accepted = listener.accept().await.expect("a connection");
    (dialling.await.expect("dialled"), accepted)
}

#[test]
fn frames_cross_and_a_dropped_write_half_ends_the_stream() {
    real(async {
        let (a, mut b) = pair().await;
        assert_eq!(a.peer_addr().ok(), b.local_addr().ok());
        let (mut read, mut write) = a.into_split();
        write.write_frame(b"\0\0\0\x03abc", || "label".into()).await.expect("written");
        write.write_frame(b"\0\0\0\0", || "empty".into()).await.expect("written");
        drop(write);
        assert_eq!(read_frame(&mut b, 100).await.expect("a frame").as_deref(), Some(&b"abc"[..]));
        assert_eq!(read_frame(&mut b, 100).await.expect("a frame").as_deref(), Some(&b""[..]));
        assert_eq!(read_frame(&mut b, 100).await.expect("a clean end"), None);
        // The other direction still stands.
        b.write_all(b"back").await.expect("written");
        drop(b);
        let mut back = String::new();
        read.read_to_string(&mut back).await.expect("read");
        assert_eq!(back, "back");
    });
}

#[test]
fn a_body_takes_memory_as_it_arrives() {
    let mut sizes = Vec::new();
    real(async {
        let mut source = &vec![7; 300_000][..];
        let mut body = Body::new(300_000);
        while body.next_bytes() > 0 {
            sizes.push(body.next_bytes());
            body.read(&mut source).await.expect("read");
        }
        assert_eq!(body.freeze(), vec![7; 300_000]);
        assert_eq!(Body::new(5).next_bytes(), 5);
        let mut torn = Body::new(6);
        let error = torn.read(&mut &b"abc"[..]).await.expect_err("three bytes of six");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    });
    assert_eq!(sizes, [65_536, 65_536, 131_072, 37_856]);
}

#[test]
fn a_frame_too_long_negative_or_cut_short_is_an_error() {
    real(async {
        for (bytes, kind) in [
            (&b"\0\0\0\x65"[..], io::ErrorKind::InvalidData),
            (b"\xff\xff\xff\xff", io::ErrorKind::InvalidData),
            (b"\0\0\0\x05abc", io::ErrorKind::UnexpectedEof),
            (b"\0\0", io::ErrorKind::UnexpectedEof),
        ] {
            let (mut a, mut b) = pair().await;
            a.write_all(bytes).await.expect("written");
            drop(a);
            assert_eq!(read_frame(&mut b, 100).await.expect_err("refused").kind(), kind, "{bytes:?}");
        }
    });
}

#[test]
fn timeouts_let_the_operation_win_and_intervals_tick() {
    real(async {
        assert_eq!(timeout(Duration::ZERO, async { 7 }).await, Ok(7));
        assert_eq!(timeout(Duration::from_millis(5), std::future::pending::<()>()).await, Err(Elapsed));
        let start = Instant::now();
        let mut interval = rt::time::interval(Duration::from_millis(10));
        for _ in 0..3 {
            interval.tick().await;
        }
        assert!(start.elapsed() >= Duration::from_millis(20), "two whole periods lie between three ticks");
    });
}

#[test]
fn a_set_of_tasks_yields_results_and_ends_with_its_owner() {
    real(async {
        let mut set = rt::JoinSet::new();
        for n in 0..10u64 {
            set.spawn("square", async move { n * n });
        }
        let mut sum = 0;
        while let Some(square) = set.join_next().await {
            sum += square.expect("no task panics");
        }
        assert_eq!(sum, 285);

        let (alive, mut ended) = tokio::sync::oneshot::channel::<()>();
        let mut set = rt::JoinSet::new();
        set.spawn("holds on", async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        rt::time::sleep(Duration::from_millis(5)).await;
        assert!(
            ended.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Empty)
        );
        drop(set);
        assert!(timeout(Duration::from_secs(5), ended).await.expect("ends soon").is_err());
    });
}

#[test]
fn a_panicked_or_aborted_task_is_a_join_error() {
    real(async {
        let aborted = rt::spawn("waits", std::future::pending::<()>());
        aborted.abort();
        assert_eq!(aborted.await, Err(rt::JoinError));
    });
}

#[test]
fn choices_are_random_and_points_do_not_hold() {
    real(async {
        let draws: std::collections::BTreeSet<u64> = (0..100).map(|_| rt::choice("x", 1, 1).raw()).collect();
        assert_eq!(draws.len(), 100);
        rt::preempt("nowhere").await;
    });
}
