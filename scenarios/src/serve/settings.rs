//! The settings of a served cluster: a file, single keys over it, and what is wrong with them in one line.
//!
//! The keys are those of [`broker::AgentConfig`], as plans carry them (`transactions.version`), and two sections for the
//! embedded models, `coordinator` ([`fake_etcd::ServerConfig`]) and `storage` ([`fake_s3::ServerConfig`]).

use broker::{AgentConfig, TransactionVersion};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Settings of every agent, and of the embedded models.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Every agent's, but for what its place says: node id, host, port.
    pub agent: AgentConfig,
    /// The embedded coordinator's.
    pub coordinator: fake_etcd::ServerConfig,
    /// The embedded store's.
    pub storage: fake_s3::ServerConfig,
}

/// Period of retention, compaction and collection over the embedded store: what they delete is memory.
const EMBEDDED_INTERVAL_MS: u64 = 10_000;

/// What every agent is told by its place.
const PLACED: [&str; 3] = ["node_id", "advertised_host", "advertised_port"];

impl Settings {
    /// The defaults over the embedded models: they answer at once, and what is deleted is deleted soon.
    pub fn embedded() -> Self {
        let none = fake_s3::Latency { base_us: 0, jitter_us: 0 };
        Settings {
            agent: AgentConfig {
                retention_interval_ms: EMBEDDED_INTERVAL_MS,
                compaction_interval_ms: EMBEDDED_INTERVAL_MS,
                collection_interval_ms: EMBEDDED_INTERVAL_MS,
                ..Settings::agent()
            },
            coordinator: fake_etcd::ServerConfig {
                fsync_min_us: 0,
                fsync_max_us: 0,
                ..fake_etcd::ServerConfig::default()
            },
            storage: fake_s3::ServerConfig {
                write: none,
                read: none,
                head: none,
                list: none,
                delete: none,
                ..fake_s3::ServerConfig::default()
            },
        }
    }

    /// The defaults over a real coordinator and a real store.
    pub fn real() -> Self {
        Settings { agent: Settings::agent(), ..Settings::embedded() }
    }

    /// Offers the second transaction protocol, as Kafka does since 4.0; clients of the first keep to its rules.
    fn agent() -> AgentConfig {
        let mut agent = AgentConfig::default();
        agent.transactions.version = TransactionVersion::V2;
        agent
    }

    /// These settings with those of a JSON text over them.
    ///
    /// # Errors
    /// Field and problem.
    pub fn with_json(&self, text: &str) -> Result<Self, String> {
        let over: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let Value::Object(over) = over else { return Err("not a JSON object of settings".into()) };
        let mut tree = self.tree();
        lay_over(&mut tree, over);
        self.parse(tree)
    }

    /// These settings with one changed: `key=value`, the key's parts separated by dots, the value as JSON or plain text.
    ///
    /// # Errors
    /// Field and problem.
    pub fn with_key(&self, text: &str) -> Result<Self, String> {
        let (key, value) =
            text.split_once('=').ok_or("write KEY=VALUE, for example transactions.version=1")?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_string()));
        let nested = key
            .rsplit('.')
            .fold(value, |inner, part| Value::from(Map::from_iter([(part.to_string(), inner)])));
        let Value::Object(over) = nested else { unreachable!("made above") };
        let mut tree = self.tree();
        lay_over(&mut tree, over);
        self.parse(tree)
    }

    /// All of it as one object.
    fn tree(&self) -> Map<String, Value> {
        let Value::Object(mut tree) = json(&self.agent) else { unreachable!("a struct is an object") };
        for placed in PLACED {
            tree.remove(placed);
        }
        tree.insert("coordinator".into(), json(&self.coordinator));
        tree.insert("storage".into(), json(&self.storage));
        tree
    }

    fn parse(&self, mut tree: Map<String, Value>) -> Result<Self, String> {
        if let Some(placed) = PLACED.iter().find(|placed| tree.contains_key(**placed)) {
            return Err(format!(
                "{placed}: every agent has its own: use --listen, --advertise, --agents and --node-id"
            ));
        }
        let coordinator = section(tree.remove("coordinator").unwrap_or_default(), "coordinator.")?;
        let storage = section(tree.remove("storage").unwrap_or_default(), "storage.")?;
        Ok(Settings { agent: section(Value::Object(tree), "")?, coordinator, storage })
    }
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("settings are JSON")
}

fn section<T: DeserializeOwned>(value: Value, name: &str) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let (path, inner) = (error.path().to_string(), error.inner());
        match path.as_str() {
            "." => format!("{}: {inner}", name.trim_end_matches('.')),
            path => format!("{name}{path}: {inner}"),
        }
    })
}

/// Puts `over` over `tree`, object into object.
fn lay_over(tree: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (tree.get_mut(&key), value) {
            (Some(Value::Object(inner)), Value::Object(over)) => lay_over(inner, over),
            (_, value) => drop(tree.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_where_they_belong_and_leave_the_rest() {
        let base = Settings::embedded();
        let settings =
            base.with_json(r#"{"log_retention_bytes": 5, "storage": {"concurrency": 7}}"#).unwrap();
        assert_eq!((settings.agent.log_retention_bytes, settings.storage.concurrency), (5, 7));
        assert_eq!(settings.agent.transactions.version, TransactionVersion::V2, "not mentioned");
        assert_eq!(settings.storage.write, base.storage.write, "not mentioned");
        let settings =
            settings.with_key("transactions.version=1").unwrap().with_key("routing=rendezvous").unwrap();
        assert_eq!(settings.agent.transactions.version, TransactionVersion::V1);
        assert_eq!(settings.agent.routing, broker::Routing::Rendezvous);
        assert_eq!(settings.agent.log_retention_bytes, 5);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_field() {
        let base = Settings::embedded();
        let file = |text| base.with_json(text).unwrap_err();
        assert!(file("{").starts_with("not JSON: EOF"), "{}", file("{"));
        assert_eq!(file("[]"), "not a JSON object of settings");
        assert!(
            file(r#"{"retention": 1}"#).starts_with("retention: unknown field `retention`, expected one of")
        );
        assert_eq!(
            file(r#"{"transactions": {"version": 3}}"#),
            "transactions.version: transaction.version is 1 or 2, not 3"
        );
        assert!(file(r#"{"storage": {"write": 1}}"#).starts_with("storage.write: invalid type"));
        assert!(file(r#"{"node_id": 4}"#).starts_with("node_id: every agent has its own"));
        assert!(base.with_key("transactions.version").unwrap_err().starts_with("write KEY=VALUE"));
        assert!(base.with_key("lease_ttl_s=soon").unwrap_err().starts_with("lease_ttl_s: invalid type"));
    }
}
