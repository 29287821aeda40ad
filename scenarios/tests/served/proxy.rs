//! Real clients' models, a served cluster, and the proxy between them.

use crate::harness::{anywhere, http, producer, read, send, serve, settings, until};
use client::IsolationLevel::ReadCommitted;
use client::{Producer, Variant};
use rt::time::Instant;
use scenarios::HostPort;
use scenarios::proxy::{Options, Proxying, parse_faults};
use scenarios::serve::Serving;
use serde_json::Value;
use std::time::Duration;

pub(crate) async fn proxy(serving: &Serving, faults: &str) -> Proxying {
    let upstream: Vec<HostPort> =
        serving.bootstrap_servers().iter().map(|server| server.parse().unwrap()).collect();
    let faults = parse_faults(faults, upstream.len()).unwrap();
    let options = Options { upstream, listen: anywhere(), advertise: None, admin: anywhere(), faults };
    Proxying::start(options).await.unwrap()
}

/// The log's lines that have this `what`, and these words in their labels.
pub(crate) async fn lines(proxying: &Proxying, what: &str, words: &str) -> Vec<Value> {
    let (_, log) = http(proxying.admin(), "GET", "/log", "").await;
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let label = |line: &Value| line["label"].as_str().unwrap_or_default().to_string();
    let has = |line: &Value| words.split(' ').all(|word| label(line).split(' ').any(|other| other == word));
    lines.filter(|line| line["what"] == what && has(line)).collect()
}

/// Three transactions, the second of whose EndTxn is held on its way; it is let go in the middle of the third, which is
/// then aborted. Returns what a reader of committed records sees of the third, and what the late EndTxn was answered.
async fn a_late_commit(variant: Variant, transaction_version: u8) -> (Vec<String>, String) {
    let serving = serve(2, settings(transaction_version)).await;
    let proxying = proxy(&serving, "[]").await;
    let servers = proxying.bootstrap_servers().await;
    let jt = producer(servers.clone(), "jt1", true, variant);
    jt.init_transactions().await.unwrap();
    transaction(&jt, &["a"]).await;
    jt.commit_transaction().await.unwrap();

    let hold =
        r#"{"id": 1, "fault": {"hold": {"frame": {"words": "EndTxn commit id=jt1", "from": "client"}}}}"#;
    assert_eq!(http(proxying.admin(), "POST", "/faults", hold).await, (200, "{\"1\":\"waiting\"}\n".into()));
    transaction(&jt, &["b"]).await;
    jt.commit_transaction().await.expect("the retry goes through");
    assert_eq!(http(proxying.admin(), "GET", "/held", "").await, (200, "[1]\n".into()));

    transaction(&jt, &["c"]).await;
    assert_eq!(http(proxying.admin(), "POST", "/release/1", "").await.0, 200);
    // Its client closed that connection long ago, so the answer is lost; but it was executed, or refused.
    let held = lines(&proxying, "held", "EndTxn").await.remove(0);
    let connection = &held["connection"];
    until("the late answer", async || {
        lines(&proxying, "lost", "EndTxn.reply").await.iter().any(|line| line["connection"] == *connection)
    })
    .await;
    let released = lines(&proxying, "released", "EndTxn").await.remove(0);
    assert_eq!(released["sender_open"], false, "{released}");
    let answer = lines(&proxying, "lost", "EndTxn.reply").await.remove(0);
    let answer = answer["label"].as_str().unwrap().split(' ').nth(1).unwrap().to_string();

    send(&jt, 1, "d").await.await.unwrap();
    jt.abort_transaction().await.unwrap();
    transaction(&jt, &["end"]).await;
    jt.commit_transaction().await.unwrap();
    let mut seen: Vec<String> = Vec::new();
    until("the last record", async || {
        let all = read(servers.clone(), ReadCommitted, 3).await;
        seen = all.into_iter().map(|(_, _, value)| value).collect();
        seen.iter().any(|value| value == "end")
    })
    .await;
    assert!(["a", "b"].iter().all(|value| seen.iter().any(|other| other == value)), "{seen:?}");
    seen.retain(|value| value == "c" || value == "d");
    (seen, answer)
}

async fn transaction(producer: &Producer, values: &[&'static str]) {
    producer.begin_transaction().unwrap();
    for value in values {
        send(producer, 0, value).await.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_tears_the_next_transaction_of_the_old_protocol() {
    let (seen, answer) = a_late_commit(Variant::Java38, 1).await;
    assert_eq!(
        (seen, answer.as_str()),
        (vec!["c".to_string()], "0"),
        "half of what the client aborted is committed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_is_refused_where_epochs_move() {
    for (variant, version) in [(Variant::Strict, 1), (Variant::Java4, 2)] {
        let (seen, answer) = a_late_commit(variant, version).await;
        assert!(seen.is_empty(), "{variant:?}: {seen:?}");
        // INVALID_PRODUCER_EPOCH or PRODUCER_FENCED.
        assert!(["47", "90"].contains(&answer.as_str()), "{variant:?}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_delayed_and_a_connection_is_reset() {
    let serving = serve(1, settings(2)).await;
    let faults = r#"[
        {"id": 1, "fault": {"delay": {"frame": {"words": "Produce.reply 0", "from": "broker-1"}, "by_ms": 200}}},
        {"id": 2, "fault": {"reset": {"frame": {"words": "Produce client=p", "nth": 2}}}}]"#;
    let proxying = proxy(&serving, faults).await;
    let servers = proxying.bootstrap_servers().await;
    let plain = producer(servers.clone(), "p", false, Variant::Java4);
    let begun = Instant::now();
    send(&plain, 0, "a").await.await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    // Lost with its connection, and sent again on another.
    send(&plain, 0, "b").await.await.unwrap();
    assert_eq!(lines(&proxying, "reset", "Produce").await.len(), 1);
    let produced = lines(&proxying, "passed", "Produce").await;
    assert_eq!(produced.len(), 2);
    assert_ne!(produced[0]["connection"], produced[1]["connection"]);
    assert_eq!(http(proxying.admin(), "GET", "/faults", "").await.1, "{\"1\":\"struck\",\"2\":\"struck\"}\n");
    let values = read(servers, ReadCommitted, 2).await;
    assert_eq!(values, [(0, 0, "a".to_string()), (0, 1, "b".to_string())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_broker_answers_when_it_goes_on_and_clients_stay_inside() {
    let serving = serve(2, settings(2)).await;
    let proxying = proxy(&serving, "[]").await;
    let servers = proxying.bootstrap_servers().await;
    // It knows the second broker only; the first is named by an answer, by the proxy's address.
    let plain = producer(vec![servers[1].clone()], "p", false, Variant::Java4);
    send(&plain, 0, "a").await.await.unwrap();
    let pause = r#"[{"id": 1, "fault": {"pause": {"node": "broker-1", "for_ms": 300}}},
        {"id": 2, "fault": {"pause": {"node": "broker-2", "for_ms": 300}}}]"#;
    assert_eq!(http(proxying.admin(), "POST", "/faults", pause).await.0, 200);
    let begun = Instant::now();
    send(&plain, 0, "b").await.await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
    let (_, brokers) = http(proxying.admin(), "GET", "/brokers", "").await;
    let brokers: Value = serde_json::from_str(&brokers).unwrap();
    assert_eq!(brokers.as_array().unwrap().len(), 2, "{brokers}");
    drop(plain);
    until("both ends of every connection", async || {
        lines(&proxying, "opened", "").await.len() == lines(&proxying, "closed", "").await.len()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_refused_over_http_too() {
    let serving = serve(1, settings(2)).await;
    let proxying = proxy(&serving, "[]").await;
    let (status, why) =
        http(proxying.admin(), "POST", "/faults", r#"{"id": 1, "fault": {"crash": {"node": "broker-1"}}}"#)
            .await;
    assert_eq!(status, 400);
    assert!(why.starts_with("[0].fault.crash: a proxy cannot end a broker"), "{why}");
    assert_eq!(http(proxying.admin(), "POST", "/release/1", "").await.0, 409);
    assert_eq!(http(proxying.admin(), "GET", "/nothing", "").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_rewritten_and_the_client_believes_it() {
    let serving = serve(1, settings(2)).await;
    let proxying = proxy(&serving, "[]").await;
    let servers = proxying.bootstrap_servers().await;
    let plain = producer(servers.clone(), "p", false, Variant::Java38);
    assert_eq!(send(&plain, 0, "a").await.await.unwrap().offset, 0);
    let duplicate =
        r#"{"id": 1, "frame": {"words": "Produce.reply client=p"}, "code": 46, "base_offset": 7}"#;
    assert_eq!(http(proxying.admin(), "POST", "/rewrites", duplicate).await.0, 200);
    assert_eq!(send(&plain, 0, "b").await.await.unwrap().offset, 7);
    assert_eq!(send(&plain, 0, "c").await.await.unwrap().offset, 2, "only one");
    assert_eq!(lines(&proxying, "rewritten", "Produce.reply 0 client=p").await.len(), 1);
    assert_eq!(lines(&proxying, "passed", "Produce.reply 46 client=p").await.len(), 1);
    let (status, why) = http(proxying.admin(), "POST", "/rewrites", r#"{"id": 2, "code": 46}"#).await;
    assert_eq!(status, 400);
    assert!(why.contains("missing field `frame`"), "{why}");
}
