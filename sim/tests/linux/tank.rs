//! The stage in the tank: the kernel model, under [`sim::run()`].

use crate::puppet::{Addresses, Answer, puppet};
use crate::script::{Call, Case, Side, TROUBLE_EVENT};
use crate::stage::{Seen, Stage, net_config, play};
use sim::fault::Fault;
use sim::node::{self, Role};
use sim::run::Config;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Plays `case` in the tank.
pub(crate) fn run(case: &Case) -> Result<Vec<Option<Seen>>, String> {
    let config = Config { seed: 1, faults: case.faults(), net: net_config(), ..Config::default() };
    let own = case.clone();
    let run = sim::run(&config, move || async move {
        let mut tank = Tank::new();
        play(&own, &mut tank).await
    });
    if let Some(failure) = run.failures.first() {
        return Err(failure.claim.clone());
    }
    if run.landed.len() != config.faults.len() {
        return Err(format!("of {} troubles only {:?} landed", config.faults.len(), run.landed));
    }
    run.value.ok_or_else(|| format!("the run ended by {:?}", run.end))
}

/// Tells the latest process of a side what to do.
type Strings = Arc<Mutex<Option<UnboundedSender<(u8, Call)>>>>;

struct Tank {
    strings: [Strings; 2],
    answers: UnboundedReceiver<(Side, Answer)>,
}

impl Tank {
    fn new() -> Self {
        let (say, answers) = unbounded_channel();
        let strings = Side::BOTH.map(|side| {
            let strings = Strings::default();
            let (own, say) = (strings.clone(), say.clone());
            let addresses = Addresses {
                own: format!("{}:7000", side.name()),
                peer: format!("{}:7000", side.other().name()),
            };
            node::add(side.name(), Role::Agent, None, move |_| {
                let (tell, calls) = unbounded_channel();
                *own.lock().expect("nobody panics with it") = Some(tell);
                let say = say.clone();
                Box::pin(puppet(addresses.clone(), calls, move |answer| {
                    say.send((side, answer)).expect("the script listens");
                }))
            });
            strings
        });
        Tank { strings, answers }
    }
}

impl Stage for Tank {
    fn now_ms(&self) -> u64 {
        rt::time::Instant::now().as_nanos() / 1_000_000
    }

    async fn call(&mut self, side: Side, socket: u8, call: Call) {
        let strings = self.strings[side as usize].lock().expect("nobody panics with it").clone();
        let told = strings.map(|strings| strings.send((socket, call)));
        assert!(matches!(told, Some(Ok(()))), "{side:?} is told to {call} while it is down");
    }

    async fn trouble(&mut self, step: usize, _: &Fault, _: bool) {
        rt::event!(TROUBLE_EVENT, step = step);
        // It strikes when this task waits.
        rt::time::sleep(Duration::from_millis(1)).await;
    }

    async fn answer(&mut self, until_ms: u64) -> Option<(Side, Answer)> {
        let left = Duration::from_millis(until_ms.saturating_sub(self.now_ms()));
        rt::time::timeout(left, self.answers.recv()).await.ok().flatten()
    }
}
