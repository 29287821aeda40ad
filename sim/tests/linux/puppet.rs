//! The process of a case: it does what it is told, one call at a time a socket and verb, and says what came of it.
//!
//! The same code runs in the tank and as a real process; `rt` makes the difference. What it writes is a pattern of the
//! position in the stream, so what is read can be checked.

use crate::script::Call;
use rt::net::{TcpListener, TcpStream};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::UnboundedReceiver;

/// Where a process listens, and where it dials.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    pub(crate) own: String,
    pub(crate) peer: String,
}

/// What came of a call.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) socket: u8,
    pub(crate) verb: &'static str,
    pub(crate) said: String,
}

/// A connected socket and how far its process has read and written.
struct Socket {
    stream: Mutex<TcpStream>,
    read: Mutex<usize>,
    written: Mutex<usize>,
}

#[derive(Default)]
struct Held {
    listener: Option<Arc<TcpListener>>,
    sockets: BTreeMap<u8, Arc<Socket>>,
    at_work: Vec<(u8, rt::JoinHandle<()>)>,
}

type Shared = Arc<Mutex<Held>>;

/// Does what it is told until nobody tells it anything any more.
pub(crate) async fn puppet(
    addresses: Addresses,
    mut calls: UnboundedReceiver<(u8, Call)>,
    answer: impl Fn(Answer) + Clone + Send + Sync + 'static,
) {
    let held = Shared::default();
    while let Some((socket, call)) = calls.recv().await {
        if call == Call::Close {
            give_up(&held, socket).await;
        }
        let (addresses, shared, answer) = (addresses.clone(), held.clone(), answer.clone());
        let task = rt::spawn("call", async move {
            let said = perform(&addresses, &shared, socket, call).await;
            let said = said.unwrap_or_else(|error| format!("{:?}", error.kind()));
            answer(Answer { socket, verb: call.verb(), said });
        });
        locked(&held).at_work.push((socket, task));
    }
}

/// Ends the calls that are under way on `socket`.
async fn give_up(held: &Shared, socket: u8) {
    let at_work = std::mem::take(&mut locked(held).at_work);
    let (ended, others) = at_work.into_iter().partition(|(of, _)| *of == socket);
    locked(held).at_work = others;
    for (_, task) in ended {
        task.abort();
        // Either way the task has let go of the socket.
        let _ = task.await;
    }
}

async fn perform(addresses: &Addresses, held: &Shared, number: u8, call: Call) -> io::Result<String> {
    let ok = || Ok("ok".to_string());
    match call {
        Call::Listen => {
            let listener = TcpListener::bind(&addresses.own).await?;
            locked(held).listener = Some(Arc::new(listener));
            ok()
        }
        Call::Unlisten => {
            let listener = locked(held).listener.take();
            drop(listener);
            ok()
        }
        Call::Dial => {
            let stream = TcpStream::connect(&addresses.peer).await?;
            keep(held, number, stream);
            ok()
        }
        Call::Accept => {
            let listener = locked(held).listener.clone().ok_or(io::ErrorKind::NotFound)?;
            let stream = listener.accept().await?;
            keep(held, number, stream);
            ok()
        }
        Call::Read(bytes) => read(&*socket(held, number)?, bytes).await,
        Call::Write(bytes) => write(&*socket(held, number)?, bytes).await,
        Call::Shutdown => {
            let socket = socket(held, number)?;
            poll_fn(|cx| Pin::new(&mut *locked(&socket.stream)).poll_shutdown(cx)).await?;
            ok()
        }
        Call::Close => {
            let socket = locked(held).sockets.remove(&number);
            drop(socket);
            ok()
        }
    }
}

async fn read(socket: &Socket, wanted: usize) -> io::Result<String> {
    let mut space = vec![0; wanted.min(16 * 1024)];
    let mut got = 0;
    while got < wanted {
        let room = (wanted - got).min(space.len());
        let mut buf = ReadBuf::new(&mut space[..room]);
        let done = poll_fn(|cx| {
            let read = Pin::new(&mut *locked(&socket.stream)).poll_read(cx, &mut buf);
            read.map_ok(|()| buf.filled().len())
        });
        let read = match done.await {
            Ok(read) => read,
            Err(error) if got == 0 => return Err(error),
            Err(error) => return Ok(format!("{got} then {:?}", error.kind())),
        };
        if read == 0 {
            return Ok(if got == 0 { "end".into() } else { format!("{got} then end") });
        }
        let mut position = locked(&socket.read);
        if !(0..read).all(|index| space[index] == pattern(*position + index)) {
            return Ok(format!("other bytes than were written, after {}", *position));
        }
        *position += read;
        got += read;
    }
    Ok(got.to_string())
}

async fn write(socket: &Socket, bytes: usize) -> io::Result<String> {
    let start = *locked(&socket.written);
    let all: Vec<u8> = (start..start + bytes).map(pattern).collect();
    let mut rest = &all[..];
    while !rest.is_empty() {
        let done = poll_fn(|cx| -> Poll<io::Result<usize>> {
            Pin::new(&mut *locked(&socket.stream)).poll_write(cx, rest)
        });
        match done.await {
            Ok(written) => {
                rest = &rest[written..];
                *locked(&socket.written) += written;
            }
            Err(error) if rest.len() == bytes => return Err(error),
            // How much fits in before that is a matter of buffers.
            Err(error) => return Ok(format!("some then {:?}", error.kind())),
        }
    }
    Ok(bytes.to_string())
}

/// The byte at `position` of every stream.
fn pattern(position: usize) -> u8 {
    (position as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]
}

fn keep(held: &Shared, number: u8, stream: TcpStream) {
    let socket = Socket { stream: Mutex::new(stream), read: Mutex::default(), written: Mutex::default() };
    locked(held).sockets.insert(number, Arc::new(socket));
}

fn socket(held: &Shared, number: u8) -> io::Result<Arc<Socket>> {
    // No socket call has this error, so that a script that is wrong shows.
    locked(held).sockets.get(&number).cloned().ok_or(io::ErrorKind::NotFound.into())
}

fn locked<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
