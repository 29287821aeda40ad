//! The same agents over a real etcd and a real S3. `.ci/serve-real` starts those and says where they are.
#![cfg(all(feature = "etcd", feature = "s3"))]

use crate::harness::{http, options, producer, read, send, start, until};
use client::IsolationLevel::ReadCommitted;
use client::Variant;
use scenarios::serve::{Options, Real, Serving, Settings};

/// Where they are; nothing, and a line that says so, where the environment does not tell.
#[expect(clippy::disallowed_methods, reason = "the script that starts the servers says where they are")]
fn told(prefix: &str) -> Option<Real> {
    let (etcd, store) = (std::env::var("WAVETANK_ETCD"), std::env::var("WAVETANK_STORE"));
    let (Ok(etcd), Ok(store)) = (etcd, store) else {
        println!("skipped: no real etcd and S3 are named; run .ci/serve-real, which starts some");
        return None;
    };
    Some(Real { etcd, store: format!("{store}/{prefix}") })
}

async fn serve(real: Real) -> Serving {
    let settings =
        Settings::real().with_json(r#"{"lease_ttl_s": 2, "collection_interval_ms": 1000}"#).unwrap();
    start(Options { real: Some(real), ..options(3, settings) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_real_etcd_and_a_real_s3_keep_outlives_the_agents() {
    let Some(real) = told("outlives") else { return };
    let serving = serve(real.clone()).await;
    let (servers, admin) = (serving.bootstrap_servers(), serving.admin().clone());
    let jt = producer(servers.clone(), "jt1", true, Variant::Java4);
    jt.init_transactions().await.unwrap();
    for (value, committed) in [("a", true), ("dropped", false), ("b", true)] {
        jt.begin_transaction().unwrap();
        send(&jt, 0, value).await.await.unwrap();
        if committed {
            jt.commit_transaction().await.unwrap();
        } else {
            jt.abort_transaction().await.unwrap();
        }
    }
    // An agent crashes and comes back; its lease runs out or is taken over.
    assert_eq!(http(&admin, "POST", "/agents/1/stop", "").await.0, 200);
    jt.begin_transaction().unwrap();
    send(&jt, 1, "c").await.await.unwrap();
    jt.commit_transaction().await.unwrap();
    assert_eq!(http(&admin, "POST", "/agents/1/start", "").await.0, 200);
    until("readiness", async || http(&admin, "GET", "/ready", "").await.0 == 200).await;
    let record = |partition, offset, value: &str| (partition, offset, value.to_string());
    let expected = [record(0, 0, "a"), record(0, 4, "b"), record(1, 0, "c")];
    assert_eq!(read(servers, ReadCommitted, 3).await, expected);
    drop(jt);
    let told = serving.drain().await;
    assert!(told.starts_with("stopped: 3 agents drained in "), "{told}");
    drop(serving);

    let again = serve(real).await;
    assert_eq!(read(again.bootstrap_servers(), ReadCommitted, 3).await, expected);
}
