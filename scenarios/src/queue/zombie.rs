//! Zombies: clients that were given up, and do not know it. Another one with the same transactional id takes their place
//! and fences them; what they do goes on meanwhile, in the history as the doing of a process of its own.

use super::settings::Queue;
use super::worker::{Manner, POLL_MS, Worked, Worker};
use crate::log::Details;
use crate::plan::{Micro, Op, Operation, Queued};
use check::{Function, Status};
use sim::choice::Choices;
use tokio::sync::oneshot;

/// Values that zombies send: beyond all others.
const VALUES: u64 = 1_000_000;
/// How long a zombie waits with its commit once it was replaced, at most, in milliseconds.
const WAIT_MS_MAX: u64 = 300;

/// Puts a zombie in the place of every client that crashes. It sends a record, loses its place, and goes on: with a
/// commit, or with another record first.
pub(crate) fn rise(choices: &Choices, queue: &Queue, operations: &mut [Operation]) {
    for operation in operations.iter_mut().filter(|operation| operation.what == Op::Queue(Queued::Crash)) {
        let of = |what, ordinal| choices.world(what, u64::from(operation.id), ordinal);
        let send = |nth| {
            let key = of("zombie.key", nth).below(u64::from(queue.active_keys)) as u32;
            Micro::Send { key, value: VALUES + 2 * u64::from(operation.id) + nth }
        };
        let wait = Micro::Wait(of("zombie.wait", 0).between(0, WAIT_MS_MAX));
        let mut what = vec![send(0), Micro::Replaced, wait];
        what.extend(of("zombie.more", 0).chance(0.5).then(|| send(1)));
        operation.what = Op::Queue(Queued::Haunt { what });
    }
}

impl Worker {
    /// The client is given up and not closed: it does this in a transaction, while the next operation opens another.
    pub(super) async fn haunt(&mut self, what: Vec<Micro>) {
        self.open().await;
        self.invoke(Function::Crash, Details::default());
        let worked = Worked { status: Status::Info, details: Details::default(), error: None, goes_on: true };
        self.complete(Function::Crash, worked).await;
        let Some(mut client) = self.client.take() else { return };
        let (replace, replaced) = oneshot::channel();
        client.process = self.log.new_process();
        client.replaced = Some(replaced);
        self.replaces = Some(replace);
        let mut zombie = Worker::new(&self.name, &self.config, &self.queue, &self.log);
        zombie.client = Some(client);
        let manner = Manner { txn: true, abort_at: None, poll_ms: POLL_MS, seeks_back: true };
        self.zombies.spawn("queue.zombie", async move {
            let (status, _) = zombie.work(&what, manner).await;
            zombie.log.lock().queue.zombies.push(status);
            if let Some(client) = zombie.client {
                client.close(zombie.queue.close_ms, &zombie.log).await;
            }
        });
    }

    /// Waits until all its zombies are at rest.
    pub(super) async fn lay_to_rest(&mut self) {
        if self.zombies.is_empty() {
            return;
        }
        // The last of them is not replaced before somebody is there.
        self.open().await;
        while self.zombies.join_next().await.is_some() {}
    }
}
