//! Plays a case on a stage, which is the tank or Linux, and notes what each step observed and in what time.
//!
//! The timing class of an observation is told from the time since whatever came last: its call, the last step of the
//! script, or the end of a trouble. Everything that is not at once takes at least [`NetConfig::rto_min_ms`] here, a
//! whole second, so that a busy machine does not blur the classes.

use crate::puppet::Answer;
use crate::script::{Act, Call, CallKey, Case, Side};
use sim::fault::Fault;
use sim::net::NetConfig;
use std::collections::BTreeMap;
use std::future::Future;

/// What a process may take to answer, and still it was at once.
const AT_ONCE_MS: u64 = 500;
/// How long a call is waited for that should end.
const CALL_LIMIT_MS: u64 = 20_000;

/// `tcp_retries2`.
pub(crate) const RETRIES: u32 = 3;
/// `tcp_orphan_retries`.
pub(crate) const ORPHAN_RETRIES: u32 = 3;

/// The kernels of all cases. Time-outs take seconds, and a listener's backlog is soon full.
pub(crate) fn net_config() -> NetConfig {
    NetConfig {
        rto_min_ms: 1_000,
        syn_rto_ms: 1_000,
        syn_retries: 2,
        syn_linear_timeouts: 0,
        synack_retries: 2,
        user_timeout_ms: timeout_of_retries_ms(RETRIES),
        orphan_timeout_ms: timeout_of_retries_ms(ORPHAN_RETRIES),
        backlog: 2,
        ..NetConfig::default()
    }
}

/// What Linux makes of a number of retries: the time so many doublings of 200 ms take.
fn timeout_of_retries_ms(retries: u32) -> u64 {
    ((2 << retries) - 1) * 200
}

/// Where a case is played.
pub(crate) trait Stage {
    /// Milliseconds since any one moment.
    fn now_ms(&self) -> u64;
    /// Has a process make a call.
    fn call(&mut self, side: Side, socket: u8, call: Call) -> impl Future<Output = ()> + Send;
    /// Has the trouble of a step strike. `told` says whether routers answer for a machine that is off.
    fn trouble(&mut self, step: usize, fault: &Fault, told: bool) -> impl Future<Output = ()> + Send;
    /// Waits for the next answer, until a time at most.
    fn answer(&mut self, until_ms: u64) -> impl Future<Output = Option<(Side, Answer)>> + Send;
}

/// What a step observed.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) said: String,
    /// How long after what brought it about.
    pub(crate) after_ms: u64,
}

/// The case on its stage: what was asked, what was answered, what happened when.
struct Play<'a, S> {
    stage: &'a mut S,
    asked: BTreeMap<CallKey, u64>,
    answered: BTreeMap<CallKey, (u64, String)>,
    happened: Vec<u64>,
}

/// Plays `case`; what each of its steps observed, if it observes anything.
pub(crate) async fn play(case: &Case, stage: &mut (impl Stage + Send)) -> Vec<Option<Seen>> {
    let (asked, answered, happened) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut play = Play { stage, asked, answered, happened };
    let mut seen = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        seen.push(match &step.act {
            Act::Call { side, socket, call, waits } => {
                let key = (*side, *socket, call.verb());
                play.happened.push(play.stage.now_ms());
                play.stage.call(*side, *socket, *call).await;
                play.asked.insert(key, play.stage.now_ms());
                if *waits { Some(play.wait(key, CALL_LIMIT_MS).await) } else { None }
            }
            Act::Wait { key, limit_ms } => Some(play.wait(*key, *limit_ms).await),
            Act::Trouble { fault, told } => {
                let now = play.stage.now_ms();
                play.stage.trouble(index, fault, *told).await;
                play.happened.extend([now, now + ends_after_ms(fault)]);
                None
            }
            Act::Sleep { ms } => {
                let until = play.stage.now_ms() + ms;
                play.listen(until, None).await;
                None
            }
        });
    }
    seen
}

impl<S: Stage> Play<'_, S> {
    /// Notes answers until a time, or until there is one to `key`.
    async fn listen(&mut self, until_ms: u64, key: Option<CallKey>) {
        while !key.is_some_and(|key| self.answered.contains_key(&key)) {
            let Some((side, answer)) = self.stage.answer(until_ms).await else { return };
            let key = (side, answer.socket, answer.verb);
            self.answered.insert(key, (self.stage.now_ms(), answer.said));
        }
    }

    async fn wait(&mut self, key: CallKey, limit_ms: u64) -> Seen {
        assert!(self.asked.contains_key(&key), "nothing was asked of {key:?}");
        self.listen(self.stage.now_ms() + limit_ms, Some(key)).await;
        let Some((at, said)) = self.answered.remove(&key) else {
            return Seen { said: "pending".into(), after_ms: limit_ms };
        };
        let asked = self.asked.remove(&key).unwrap_or_default();
        let before = self.happened.iter().copied().filter(|happened| *happened <= at);
        let after_ms = at - before.max().unwrap_or_default().max(asked).min(at);
        let class = match said.ends_with("TimedOut") || said.ends_with("HostUnreachable") {
            _ if after_ms < AT_ONCE_MS => "",
            true => " after timeout",
            false => " after retransmission",
        };
        Seen { said: said + class, after_ms }
    }
}

fn ends_after_ms(fault: &Fault) -> u64 {
    match fault {
        Fault::Pause { for_ms, .. } | Fault::Cut { for_ms, .. } | Fault::Loss { for_ms, .. } => *for_ms,
        Fault::Crash { restart_after_ms, .. } | Fault::MachineCrash { restart_after_ms, .. } => {
            restart_after_ms.unwrap_or_default()
        }
        fault => unreachable!("no case has the trouble {fault:?}"),
    }
}
