//! Several agents that finish the same transaction.

use super::*;
use crate::harness::World;
use broker::{AgentConfig, TransactionConfig, TransactionVersion};

/// Transactions in a run: the agents meet at another step of theirs in each.
const TRANSACTIONS: usize = 60;

#[test]
fn a_partition_gets_one_marker_though_two_agents_finish_the_transaction() {
    for (version, versions) in [(TransactionVersion::V1, V1), (TransactionVersion::V2, V2)] {
        let transactions = TransactionConfig { version, ..TransactionConfig::default() };
        let mut world =
            World { agent: AgentConfig { transactions, ..AgentConfig::default() }, ..World::default() };
        world.config.agents = 2;
        world.run(move |cluster| async move {
            let mut agents = [cluster.connect("agent-1").await, cluster.connect("agent-2").await];
            agents[0].create_topic(TOPIC, 1, &[]).await;
            let mut holder = init(&mut agents[0], "jt1").await;
            for n in 0..TRANSACTIONS {
                if versions.produce < V2.produce {
                    add(&mut agents[0], holder, &[0]).await;
                }
                let sequence = if versions.produce < V2.produce { n as i32 } else { 0 };
                assert_eq!(send(&mut agents[0], versions, holder, 0, sequence, &["a"]).await.0, 0);
                assert_eq!(end_once(&mut agents[0], versions, holder, COMMIT).await.0, 0);
                // Told that the transaction is prepared, or that it is complete; it finishes what it finds prepared.
                sleep(Duration::from_micros(50 * n as u64)).await;
                let (code, _, epoch) = end(&mut agents[1], versions, holder, COMMIT).await;
                assert_eq!(code, 0);
                if versions.produce >= V2.produce {
                    holder.epoch = epoch;
                }
            }
            markers().await;
            let data = fetch(&mut agents[0], 0, 0, true, 1 << 20).await;
            let kinds: Vec<bool> = records(&data).iter().map(|record| record.control).collect();
            let expected: Vec<bool> = (0..2 * TRANSACTIONS).map(|n| n % 2 == 1).collect();
            let read = kinds.len().min(expected.len());
            assert_eq!(kinds[..read], expected[..read], "{version:?}: a record and a marker, in turn");
            assert_eq!(data.high_watermark, 2 * TRANSACTIONS as i64, "{version:?}");
        });
    }
}
