//! A served cluster in this process.

use crate::harness::{http, producer, read, send, serve, settings, until};
use client::IsolationLevel::{ReadCommitted, ReadUncommitted};
use client::Variant;
use rt::net::TcpStream;
use serde_json::Value;

fn record(partition: i32, offset: i64, value: &str) -> (i32, i64, String) {
    (partition, offset, value.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn records_and_transactions_go_round() {
    let serving = serve(3, settings(2)).await;
    let servers = serving.bootstrap_servers();
    let plain = producer(servers.clone(), "plain", false, Variant::Java4);
    let sent = [send(&plain, 0, "a").await, send(&plain, 0, "b").await];
    for (delivery, offset) in sent.into_iter().zip(0..) {
        assert_eq!(delivery.await.unwrap().offset, offset);
    }
    let jt = producer(servers.clone(), "jt1", true, Variant::Java4);
    jt.init_transactions().await.unwrap();
    jt.begin_transaction().unwrap();
    send(&jt, 1, "kept").await.await.unwrap();
    jt.commit_transaction().await.unwrap();
    jt.begin_transaction().unwrap();
    send(&jt, 1, "dropped").await.await.unwrap();
    jt.abort_transaction().await.unwrap();
    jt.begin_transaction().unwrap();
    send(&jt, 1, "kept too").await.await.unwrap();
    jt.commit_transaction().await.unwrap();
    // Each transaction is followed by its marker.
    let committed = [record(0, 0, "a"), record(0, 1, "b"), record(1, 0, "kept"), record(1, 4, "kept too")];
    assert_eq!(read(servers.clone(), ReadCommitted, 4).await, committed);
    let all = read(servers, ReadUncommitted, 5).await;
    assert_eq!(all[3], record(1, 2, "dropped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_ends_and_comes_back_and_the_others_go_on() {
    let serving = serve(2, settings(2)).await;
    let (servers, admin) = (serving.bootstrap_servers(), serving.admin().clone());
    let plain = producer(servers.clone(), "plain", false, Variant::Java4);
    send(&plain, 0, "a").await.await.unwrap();
    assert_eq!(http(&admin, "GET", "/ready", "").await, (200, "ready\n".into()));
    for (path, agent) in [("/agents/1/stop", 1), ("/agents/2/stop?drain=true", 2)] {
        let (status, body) = http(&admin, "POST", path, "").await;
        let stopped: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &stopped["state"]), (200, &"stopped".into()), "{body}");
        assert_eq!(http(&admin, "GET", "/ready", "").await.0, 503);
        let other = servers[agent % 2].clone();
        let through_other = producer(vec![other], "other", false, Variant::Java4);
        send(&through_other, 0, "b").await.await.unwrap();
        assert_eq!(http(&admin, "POST", path, "").await, (409, format!("agent {agent} is not running\n")));
        assert_eq!(http(&admin, "POST", &format!("/agents/{agent}/start"), "").await.0, 200);
        until("readiness", async || http(&admin, "GET", "/ready", "").await.0 == 200).await;
    }
    // The producer from the beginning has met both ends.
    send(&plain, 0, "c").await.await.unwrap();
    let expected = [record(0, 0, "a"), record(0, 1, "b"), record(0, 2, "b"), record(0, 3, "c")];
    assert_eq!(read(servers, ReadCommitted, 4).await, expected);
    assert_eq!(http(&admin, "POST", "/agents/3/stop", "").await, (404, "there is no agent 3\n".into()));
    assert_eq!(http(&admin, "POST", "/agents/1/pause", "").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_names_every_agent() {
    let serving = serve(2, settings(1)).await;
    let (status, body) = http(serving.admin(), "GET", "/health", "").await;
    let health: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &health["ready"]), (200, &true.into()));
    let agents = health["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 2);
    for (agent, (address, node_id)) in agents.iter().zip(serving.bootstrap_servers().into_iter().zip(1..)) {
        assert_eq!((&agent["node_id"], &agent["address"]), (&node_id.into(), &address.into()));
        assert_eq!((&agent["state"], &agent["readiness"]), (&"running".into(), &"ready".into()));
        assert_eq!(agent["away"], Value::Array(vec![]));
        assert!(agent["lease"].as_i64().is_some_and(|lease| lease > 0), "{agent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_connections_are_served_at_once() {
    let serving = serve(1, settings(2)).await;
    let address = serving.bootstrap_servers().remove(0);
    let mut connections = Vec::new();
    for _ in 0..200 {
        connections.push(TcpStream::connect(&address).await.unwrap());
    }
    for round in 0..3_u8 {
        for (number, stream) in (0..).zip(&mut connections) {
            // ApiVersions 0: length, key, version, correlation id, client id "c".
            let frame = [0, 0, 0, 11, 0, 18, 0, 0, round, 0, 0, number, 0, 1, b'c'];
            stream.write_frame(&frame, || "ApiVersions".into()).await.unwrap();
        }
        for (number, stream) in (0..).zip(&mut connections) {
            let answer = rt::net::read_frame(stream, 1 << 20).await.unwrap().unwrap();
            assert_eq!(answer[..6], [round, 0, 0, number, 0, 0], "correlation id, and no error");
        }
    }
    let (_, metrics) = http(serving.admin(), "GET", "/metrics", "").await;
    assert!(metrics.contains("wavetank_connections{agent=\"1\"} 200\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_ends_every_agent() {
    let serving = serve(2, settings(1)).await;
    let servers = serving.bootstrap_servers();
    let told = serving.drain().await;
    assert!(told.starts_with("stopped: 2 agents drained in 0."), "{told}");
    for server in servers {
        assert!(TcpStream::connect(&server).await.is_err(), "{server} still listens");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agents_do_is_counted() {
    let serving = serve(2, settings(2)).await;
    let servers = serving.bootstrap_servers();
    // A transaction of three records.
    let jt = producer(vec![servers[0].clone()], "jt1", true, Variant::Java4);
    jt.init_transactions().await.unwrap();
    jt.begin_transaction().unwrap();
    let sent = [send(&jt, 0, "a").await, send(&jt, 0, "b").await, send(&jt, 0, "c").await];
    for delivery in sent {
        delivery.await.unwrap();
    }
    jt.commit_transaction().await.unwrap();
    read(vec![servers[0].clone()], ReadCommitted, 3).await;
    let (status, text) = http(serving.admin(), "GET", "/metrics", "").await;
    assert_eq!(status, 200);
    let all: Vec<(&str, f64)> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(series, value)| (series, value.parse().unwrap()))
        .collect();
    let value = |series: &str| {
        let found = all.iter().find(|(other, _)| *other == series);
        found.unwrap_or_else(|| panic!("no {series} in\n{text}")).1
    };
    // Of which agent the client asks what is its own affair: it learns of both, and either leads where it is asked.
    let sum = |name: &str, labels: &str| -> f64 {
        let of = |agent: u8| {
            let series = format!("wavetank_{name}{{agent=\"{agent}\"{labels}}}");
            all.iter().find(|(other, _)| *other == series).map_or(0.0, |(_, value)| *value)
        };
        of(1) + of(2)
    };
    assert_eq!(value("wavetank_agent_up{agent=\"2\"}"), 1.0);
    assert_eq!(value("wavetank_agent_ready{agent=\"1\"}"), 1.0);
    assert_eq!(value("wavetank_agent_lease{agent=\"1\"}"), 1.0);
    assert_eq!(value("wavetank_dependency_away{agent=\"1\",dependency=\"store\"}"), 0.0);
    assert_eq!(sum("produced_records_total", ""), 3.0);
    // The three, and the marker.
    assert!(sum("fetched_records_total", "") >= 3.0, "{text}");
    // A batch's header is 61 bytes long, a record of one byte 8.
    assert!(sum("produced_bytes_total", "") >= 85.0, "{text}");
    assert_eq!(sum("chunk_bytes_total", ""), sum("produced_bytes_total", ""));
    assert_eq!(sum("transactions_ended_total", ",decision=\"commit\",by=\"client\""), 1.0);
    assert_eq!(sum("requests_total", ",api=\"EndTxn\",error=\"NONE\""), 1.0);
    assert_eq!(sum("request_seconds_count", ",api=\"EndTxn\""), 1.0);
    assert_eq!(sum("request_seconds_bucket", ",api=\"EndTxn\",le=\"+Inf\""), 1.0);
    assert!(sum("dependency_seconds_count", ",dependency=\"coordinator\"") > 5.0, "{text}");
    assert_eq!(sum("dependency_failures_total", ",dependency=\"store\""), 0.0);
    assert!(sum("connections_accepted_total", "") >= 2.0, "{text}");
    drop(jt);
    assert_eq!(http(serving.admin(), "POST", "/agents/2/stop", "").await.0, 200);
    let (_, text) = http(serving.admin(), "GET", "/metrics", "").await;
    assert!(text.contains("wavetank_agent_up{agent=\"2\"} 0\n"), "{text}");
    assert!(!text.contains("wavetank_connections{agent=\"2\"}"), "{text}");
}
