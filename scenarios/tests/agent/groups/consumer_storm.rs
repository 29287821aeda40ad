//! Members of the consumer protocol in a storm. A member has what it was last told; it gives up at once what it is told to, and
//! says so with its next heartbeat. Whatever happens, no two have a partition at once; and when the storm is over
//! everything belongs to somebody.

use super::consumer::{Consumer, Owned};
use super::storm::faults;
use super::*;
use crate::harness::World;
use rt::time::{Instant, sleep, timeout};
use sim::choice::Choices;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MEMBERS: u64 = 4;
const PARTITIONS: i32 = 6;
/// How long members come and go, and when all must be settled.
const LASTS: Duration = Duration::from_secs(40);
const SETTLED: Duration = Duration::from_secs(70);
const LIMIT: Duration = Duration::from_secs(12);

/// Who has which partition.
type Owners = Arc<Mutex<BTreeMap<([u8; 16], i32), u64>>>;

struct Nomad {
    consumer: Consumer,
    cluster: Cluster,
    owners: Owners,
    number: u64,
    lives: u32,
}

impl Nomad {
    /// Takes over what it was told, after it has given up what it was not.
    fn has(&self, owned: &Owned) {
        let told: Vec<([u8; 16], i32)> =
            owned.iter().flat_map(|(topic, partitions)| partitions.iter().map(|n| (*topic, *n))).collect();
        let mut owners = self.owners.lock().unwrap();
        owners.retain(|partition, owner| *owner != self.number || told.contains(partition));
        for partition in told {
            let owner = owners.insert(partition, self.number);
            assert!(
                owner.is_none_or(|owner| owner == self.number),
                "{} and {owner:?} have {partition:?}",
                self.number
            );
        }
    }

    fn comes_in_again(&mut self) {
        self.lives += 1;
        self.consumer.id = format!("m{}-{}", self.number, self.lives);
        self.consumer.epoch = 0;
        self.consumer.owned = Owned::new();
        self.has(&Owned::new());
    }

    async fn finds_the_owner(&mut self, nth: u64) {
        let through = format!("agent-{}", 1 + (self.number + nth) % 3);
        let cluster = self.cluster;
        let found = timeout(Duration::from_secs(2), async move {
            let mut agent = cluster.connect(&through).await;
            let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
            let found = agent.try_call(4, &request, LIMIT).await?.coordinators.remove(0);
            if found.error_code != 0 {
                return None;
            }
            Some(cluster.connect(&found.host).await)
        });
        match found.await.ok().flatten() {
            Some(agent) => self.consumer.agent = agent,
            None => again().await,
        }
    }

    /// Heartbeats until it is answered. After an answer that was lost it says everything again.
    async fn beats(&mut self) {
        for nth in 0.. {
            let mut request = self.consumer.request();
            if nth > 0 {
                let names = vec![text("t").into()];
                request = request.with_rebalance_timeout_ms(60_000).with_subscribed_topic_names(Some(names));
            }
            match self.consumer.agent.try_call(1, &request, LIMIT).await {
                Some(told) if told.error_code == 0 => {
                    self.consumer.hears(&told);
                    let owned = self.consumer.owned.clone();
                    return self.has(&owned);
                }
                Some(told) if told.error_code == 110 => {
                    self.consumer.epoch = 0;
                    self.consumer.owned = Owned::new();
                    self.has(&Owned::new());
                }
                Some(told) if told.error_code == 25 || told.error_code == 69 => self.comes_in_again(),
                Some(told) => {
                    let code = told.error_code;
                    assert!(RETRIABLE.contains(&code), "ConsumerGroupHeartbeat: code {code}");
                    self.finds_the_owner(nth).await;
                }
                None => self.finds_the_owner(nth).await,
            }
        }
    }
}

async fn live(mut nomad: Nomad, choices: Choices) {
    let ends = |at: Duration| Instant::now() >= Instant::from_nanos(at.as_nanos() as u64);
    for beat in 0.. {
        nomad.beats().await;
        let draw = choices.world("beat", nomad.number, beat);
        sleep(Duration::from_millis(200 + draw.below(600))).await;
        if ends(SETTLED) {
            return;
        }
        if !ends(LASTS) && choices.world("leaves", nomad.number, beat).below(12) == 0 {
            // Whether it is heard or not: it has nothing any more, and never comes back under this id.
            nomad.has(&Owned::new());
            let request = nomad.consumer.request().with_member_epoch(-1);
            nomad.consumer.agent.try_call(1, &request, LIMIT).await;
            nomad.finds_the_owner(beat).await;
            nomad.comes_in_again();
        }
    }
}

#[test]
fn no_two_have_a_partition_at_once_in_a_storm() {
    for seed in 0..8 {
        let mut world = World { seed, faults: faults(seed), ..World::default() };
        world.config.agents = 3;
        world.agent.lease_ttl_s = 3;
        world.agent.groups.consumer_session_timeout_ms = 15_000;
        world.run(move |cluster| async move {
            cluster.connect("agent-1").await.create_topic("t", PARTITIONS, &[]).await;
            let owners = Owners::default();
            let mut members = rt::JoinSet::new();
            for number in 0..MEMBERS {
                let consumer = Consumer::new(cluster, "agent-1", &format!("m{number}")).await;
                let nomad = Nomad { consumer, cluster, owners: owners.clone(), number, lives: 0 };
                members.spawn("member", live(nomad, Choices::new(seed, &[])));
            }
            while members.join_next().await.is_some() {}
            let owners = owners.lock().unwrap();
            assert_eq!(owners.len(), PARTITIONS as usize, "nobody has the rest: {owners:?}");
            let busy: BTreeSet<u64> = owners.values().copied().collect();
            assert_eq!(busy.len(), MEMBERS as usize, "{owners:?}");
        });
    }
}
