//! The simulated host: what `rt` offers, served by this thread's world.

use crate::net::{ListenerId, SocketId};
use crate::timer::{Due, TimerId};
use crate::trace::Weight;
use crate::world;
use rt::host::{BoxFuture, Host, Listener, Stream};
use rt::observe::{Event, Kind, Value};
use rt::time::Instant;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::ReadBuf;

/// Serves the thread on which a world runs.
pub(crate) struct SimHost;

pub(crate) static SIM: SimHost = SimHost;

impl Host for SimHost {
    fn spawn(&self, _name: &'static str, task: BoxFuture<()>) {
        let refused = world::if_running(|world| {
            let process = world.here.get().process;
            world.exec.borrow_mut().spawn(world, process, task)
        });
        drop(refused);
    }

    fn now(&self) -> Instant {
        world::if_running(|world| {
            let nodes = world.nodes.borrow();
            Instant::from_nanos(nodes.get(world.here.get().node).clock.monotonic_ns(world.now.get()))
        })
        .unwrap_or(Instant::from_nanos(0))
    }

    fn wall(&self) -> Duration {
        world::if_running(|world| {
            let nodes = world.nodes.borrow();
            Duration::from_nanos(nodes.get(world.here.get().node).clock.wall_ns(world.now.get()))
        })
        .unwrap_or_default()
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()> {
        Box::pin(Sleep { deadline, timer: None })
    }

    fn bind(&self, addr: &str) -> BoxFuture<io::Result<Box<dyn Listener>>> {
        let world = world::current();
        let node = world.here.get().node;
        let bound = world.kernel(|kernel, cx| kernel.bind(cx, node, addr));
        Box::pin(std::future::ready(bound.map(|id| Box::new(SimListener(id)) as Box<dyn Listener>)))
    }

    fn connect(&self, addr: &str) -> BoxFuture<io::Result<Arc<dyn Stream>>> {
        let world = world::current();
        let node = world.here.get().node;
        let socket =
            world.kernel(|kernel, cx| kernel.connect(cx, node, addr)).map(|id| Arc::new(SimStream(id)));
        Box::pin(async move {
            let socket = socket?;
            poll_fn(|cx| {
                world::current().kernel(|kernel, kcx| kernel.poll_connect(kcx, socket.0, cx.waker()))
            })
            .await?;
            Ok(socket as Arc<dyn Stream>)
        })
    }

    fn draw(&self, name: &'static str, entity: u64, ordinal: u64) -> u64 {
        world::if_running(|world| world.choices.draw(name, world.here.get().node_key, entity, ordinal).raw())
            .unwrap_or_default()
    }

    fn preempt(&self, point: &'static str) -> Option<BoxFuture<()>> {
        let world = world::current();
        let (ordinal, struck) = world.see_point(point);
        let held_ns = world.preempt.hold_ns(&world.choices, world.here.get().node_key, point, ordinal);
        match (held_ns, struck) {
            (0, false) => None,
            (0, true) => Some(Box::pin(yield_now())),
            _ => Some(Box::pin(rt::time::sleep(Duration::from_nanos(held_ns)))),
        }
    }

    fn stop_requested(&self) -> BoxFuture<()> {
        let world = world::current();
        let door = world.nodes.borrow().door(world.here.get().node);
        Box::pin(async move {
            let fault = door.asked().await;
            world::if_running(|world| world.trouble.borrow_mut().land(fault));
        })
    }

    fn listens(&self) -> bool {
        true
    }

    fn observe(&self, event: &Event<'_>) {
        world::if_running(|world| {
            match event.kind {
                Kind::Event | Kind::Intent => {
                    let id = world.record(Weight::Event, event.name, event.fields);
                    world.cause.set(id);
                }
                kind => {
                    world.record(
                        Weight::Detail,
                        "mark",
                        &[("name", Value::Str(event.name)), ("held", held(kind).into())],
                    );
                    if world.marks.borrow_mut().count(event.name, kind) {
                        world.fail(format!("always: {}", event.name));
                    }
                }
            }
            world.see_event(event);
        });
    }
}

fn held(kind: Kind) -> bool {
    !matches!(kind, Kind::Always(false) | Kind::Sometimes(false))
}

/// Lets the executor act between two polls of this task.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A timer on the node's monotonic clock.
struct Sleep {
    deadline: Instant,
    timer: Option<TimerId>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let world = world::current();
        let here = world.here.get();
        let clock = world.nodes.borrow().get(here.node).clock;
        if clock.monotonic_ns(world.now.get()) >= self.deadline.as_nanos() {
            return Poll::Ready(());
        }
        let mut timers = world.timers.borrow_mut();
        match self.timer {
            Some(timer) if timers.rewake(timer, cx.waker()) => {}
            _ => {
                let at = clock.world_ns(self.deadline.as_nanos()).max(world.now.get() + 1);
                let due = Due::Wake(cx.waker().clone());
                self.timer = Some(timers.arm(at, here.node, world.cause.get(), due));
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            // The timer's waker is dropped after the borrow ends.
            let _cancelled = world::if_running(|world| world.timers.borrow_mut().cancel(timer));
        }
    }
}

struct SimListener(ListenerId);

impl Listener for SimListener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Arc<dyn Stream>>> {
        world::current()
            .kernel(|kernel, kcx| kernel.poll_accept(kcx, self.0, cx.waker()))
            .map_ok(|id| Arc::new(SimStream(id)) as Arc<dyn Stream>)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        world::current().kernel(|kernel, _| kernel.listener_addr(self.0))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        world::if_running(|world| world.kernel(|kernel, cx| kernel.unbind(cx, self.0)));
    }
}

struct SimStream(SocketId);

impl Stream for SimStream {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_kernel(|kernel, kcx| kernel.poll_read(kcx, self.0, buf, cx.waker()))
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_kernel(|kernel, kcx| kernel.poll_write(kcx, self.0, bytes, cx.waker()))
    }

    fn poll_shutdown(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = on_kernel(|kernel, kcx| kernel.shutdown(kcx, self.0));
        // As tokio has it: a connection that is gone is ended.
        Poll::Ready(ended.or_else(|error| match error.kind() {
            io::ErrorKind::NotConnected => Ok(()),
            _ => Err(error),
        }))
    }

    fn label(&self, label: String) {
        on_kernel(|kernel, _| kernel.label(self.0, label));
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        on_kernel(|kernel, _| kernel.local_addr(self.0))
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        on_kernel(|kernel, _| kernel.peer_addr(self.0))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        world::if_running(|world| world.kernel(|kernel, cx| kernel.close(cx, self.0)));
    }
}

fn on_kernel<T>(f: impl FnOnce(&mut crate::net::Kernel, &mut crate::net::Cx<'_>) -> T) -> T {
    world::if_running(|world| world.kernel(f)).expect("a socket outlived its world")
}
