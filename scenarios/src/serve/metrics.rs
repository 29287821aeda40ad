//! What agents counted, as Prometheus reads it.
//!
//! Every series of an agent has the label `agent`, the node id. An agent that was started anew counts from 0, as a process does.

use super::Cluster;
use super::backend::Sizes;
use crate::http::Reply;
use broker::{Calls, Counts, Dependency, Readiness, TIME_BOUNDS_S, Times};
use hyper::StatusCode;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::ApiKey;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// The content type of Prometheus' text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every agent's numbers, as they are now.
pub(super) fn reply(cluster: &Cluster) -> Reply {
    let agents = cluster.seats.iter().map(|seat| {
        let handles = seat.handles();
        Agent {
            node_id: seat.node_id().to_string(),
            ready: handles.as_ref().is_some_and(|one| one.health.readiness() == Readiness::Ready),
            leased: handles.as_ref().is_some_and(|one| one.health.lease().is_some()),
            away: handles
                .iter()
                .flat_map(|one| one.health.away())
                .map(|(dependency, _)| dependency)
                .collect(),
            counts: handles.map(|one| one.counters.read()),
        }
    });
    let mut registry = Registry::with_prefix("wavetank");
    let scrape = Scrape { agents: agents.collect(), embedded: cluster.backend.sizes() };
    registry.register_collector(Box::new(scrape));
    let mut body = String::new();
    match prometheus_text::encode(&mut body, &registry) {
        Ok(()) => Reply { status: StatusCode::OK, content_type: CONTENT_TYPE, body },
        Err(error) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}

#[derive(Debug)]
struct Agent {
    node_id: String,
    ready: bool,
    leased: bool,
    away: Vec<Dependency>,
    /// Absent while the agent does not run.
    counts: Option<Counts>,
}

#[derive(Debug)]
struct Scrape {
    agents: Vec<Agent>,
    embedded: Option<Sizes>,
}

type Labels = Vec<(&'static str, String)>;
/// Series of one metric: further labels, and a value.
type Series<T> = Vec<(Labels, T)>;

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        if let Some(Sizes { revision, etcd_bytes, objects, object_bytes }) = self.embedded {
            single(to, "embedded_etcd_revision", "Revision of the embedded coordinator", revision)?;
            single(to, "embedded_etcd_bytes", "Keys and values of it, history included", etcd_bytes)?;
            single(to, "embedded_store_objects", "Objects in the embedded store", objects.cast_signed())?;
            single(to, "embedded_store_bytes", "Bytes of these objects", object_bytes.cast_signed())?;
        }
        self.gauge(to, "agent_up", "Whether the agent runs", |agent| one(u64::from(agent.counts.is_some())))?;
        self.gauge(
            to,
            "agent_ready",
            "Whether it is registered and nothing it depends on is away",
            |agent| one(u64::from(agent.ready)),
        )?;
        self.gauge(to, "agent_lease", "Whether it is registered under a lease", |agent| {
            one(u64::from(agent.leased))
        })?;
        self.gauge(to, "dependency_away", "Whether a dependency does not answer", |agent| {
            let all = [Dependency::Coordinator, Dependency::Store, Dependency::Registration];
            let is_away = |one: &Dependency| u64::from(agent.away.contains(one));
            all.iter().map(|one| (vec![("dependency", one.to_string())], is_away(one))).collect()
        })?;
        self.gauge(to, "connections", "Client connections open", counted(|counts| one(counts.connections)))?;
        self.counter(to, "connections_accepted", "Client connections accepted", |counts| {
            one(counts.connections_accepted)
        })?;
        self.counter(to, "connections_refused", "Client connections closed for connections_max", |counts| {
            one(counts.connections_refused)
        })?;
        self.counter(to, "requests", "Requests executed, by the first error of their answer", |counts| {
            let series = counts.requests.iter();
            series
                .map(|((api, code), count)| (vec![api_label(*api), ("error", error(*code))], *count))
                .collect()
        })?;
        self.histogram(to, "request_seconds", "From a request's last byte to its answer", |counts| {
            counts.request_times.iter().map(|(api, times)| (vec![api_label(*api)], times)).collect()
        })?;
        self.counter(to, "produced_records", "Records appended", |counts| one(counts.produced.records))?;
        self.counter(to, "produced_bytes", "Bytes of their batches", |counts| one(counts.produced.bytes))?;
        self.counter(to, "fetched_records", "Records handed to readers", |counts| {
            one(counts.fetched.records)
        })?;
        self.counter(to, "fetched_bytes", "Bytes of their batches", |counts| one(counts.fetched.bytes))?;
        self.counter(to, "chunks", "Chunks put into the store", |counts| one(counts.chunks))?;
        self.counter(to, "chunk_bytes", "Bytes of these chunks", |counts| one(counts.chunk_bytes))?;
        self.counter(to, "transactions_ended", "Ends of transactions prepared, by who asked", |counts| {
            let decision = |committed: bool| if committed { "commit" } else { "abort" };
            let label =
                |committed: bool, by: &str| vec![("decision", decision(committed).into()), ("by", by.into())];
            counts
                .transactions_ended
                .iter()
                .map(|((committed, by), count)| (label(*committed, by), *count))
                .collect()
        })?;
        self.gauge(to, "groups", "Groups that this agent owns", counted(|counts| one(counts.groups)))?;
        self.gauge(
            to,
            "group_members",
            "Members whose sessions it keeps",
            counted(|counts| one(counts.group_members)),
        )?;
        self.counter(
            to,
            "dependency_failures",
            "Calls without an answer in time, or with an error",
            |counts| {
                dependencies(counts).into_iter().map(|(labels, calls)| (labels, calls.failures)).collect()
            },
        )?;
        self.histogram(to, "dependency_seconds", "Calls to a dependency", |counts| {
            dependencies(counts).into_iter().map(|(labels, calls)| (labels, &calls.times)).collect()
        })
    }
}

impl Scrape {
    fn counter(
        &self,
        to: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        series: impl Fn(&Counts) -> Series<u64>,
    ) -> fmt::Result {
        let value = |metric: &mut MetricEncoder<'_>, value: u64| {
            metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
        };
        self.metric(
            to,
            (name, help, MetricType::Counter),
            |agent| counts(agent).map_or_else(Vec::new, &series),
            value,
        )
    }

    fn gauge(
        &self,
        to: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        series: impl Fn(&Agent) -> Series<u64>,
    ) -> fmt::Result {
        self.metric(to, (name, help, MetricType::Gauge), series, |metric, value| metric.encode_gauge(&value))
    }

    fn histogram(
        &self,
        to: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        series: impl Fn(&Counts) -> Series<&Times>,
    ) -> fmt::Result {
        let of_agent = |agent| counts(agent).map_or_else(Vec::new, &series);
        self.metric(to, (name, help, MetricType::Histogram), of_agent, |metric, times| {
            let bounds = TIME_BOUNDS_S.into_iter().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
            let count = times.buckets.iter().sum();
            metric.encode_histogram::<NoLabelSet>(times.sum.as_secs_f64(), count, &buckets, None)
        })
    }

    /// One metric: name, help and type, then every agent's series.
    fn metric<'a, T>(
        &'a self,
        to: &mut DescriptorEncoder<'_>,
        (name, help, kind): (&str, &str, MetricType),
        series: impl Fn(&'a Agent) -> Series<T>,
        value: impl Fn(&mut MetricEncoder<'_>, T) -> fmt::Result,
    ) -> fmt::Result {
        let mut metric = to.encode_descriptor(name, help, None, kind)?;
        for agent in &self.agents {
            for (further, one) in series(agent) {
                let labels: Labels = [("agent", agent.node_id.clone())].into_iter().chain(further).collect();
                value(&mut metric.encode_family(&labels)?, one)?;
            }
        }
        Ok(())
    }
}

/// A gauge without labels.
fn single(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> fmt::Result {
    to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

fn counts(agent: &Agent) -> Option<&Counts> {
    agent.counts.as_ref()
}

fn counted(series: impl Fn(&Counts) -> Series<u64>) -> impl Fn(&Agent) -> Series<u64> {
    move |agent| counts(agent).map_or_else(Vec::new, &series)
}

fn one(value: u64) -> Series<u64> {
    vec![(Vec::new(), value)]
}

fn dependencies(counts: &Counts) -> Series<&Calls> {
    let label = |one: Dependency| vec![("dependency", one.to_string())];
    vec![(label(Dependency::Coordinator), &counts.coordinator), (label(Dependency::Store), &counts.store)]
}

fn api_label(api: i16) -> (&'static str, String) {
    ("api", ApiKey::try_from(api).map_or_else(|()| api.to_string(), |key| format!("{key:?}")))
}

/// An error's name in Kafka's protocol guide; `NONE` for 0.
fn error(code: i16) -> String {
    match ResponseError::try_from_code(code) {
        None => "NONE".into(),
        Some(error) => screaming(&format!("{error:?}")),
    }
}

/// `UnknownTopicId` as `UNKNOWN_TOPIC_ID`.
fn screaming(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_uppercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_named_as_in_kafkas_guide() {
        assert_eq!(error(0), "NONE");
        assert_eq!(error(3), "UNKNOWN_TOPIC_OR_PARTITION");
        assert_eq!(error(90), "PRODUCER_FENCED");
    }
}
