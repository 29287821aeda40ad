//! Everything that is Kafka *and* simulation.
//!
//! * [`Scenario`]: a claim with its world, load and trouble; [`all`] lists them, one file each
//! * [`finding`]: known failures, each with a scenario that shows it on every seed
//! * [`Plan`], [`Recording`]: what a run is made of, as data; [`validate`] says whether it can be run
//! * [`execute()`]: runs a plan and judges it; [`Outcome`] is what came of it, [`compare`] holds it against a recording
//! * [`serve`]: the same agents for real clients, on real TCP
//! * [`proxy`]: holds, delays and resets frames between real clients and real brokers
//! * [`cluster`]: agents, coordinator and object store on machines of their own; [`execute_with`] takes other agents

mod abort;
mod attribution;
mod auto_commit;
mod close;
pub mod cluster;
mod config;
mod coordinator;
mod down;
mod early_read;
mod execute;
mod explain;
pub mod explore;
mod false_fence;
mod fence;
pub mod finding;
mod ground;
mod group;
mod host_port;
mod http;
mod life;
mod log;
mod looker;
pub mod matrix;
mod mechanism;
mod member;
mod nemesis;
mod oracle;
mod outage;
mod outcome;
mod pipeline;
mod plain;
mod plan;
mod preset;
pub mod proxy;
mod queue;
mod queue_echoes;
mod queue_scenarios;
mod safe_ground;
mod safe_ground_groups;
mod scenario;
pub mod serve;
mod stale_requests;
mod storm;
mod story;
mod torn_offsets;
mod torn_transaction_random;
mod watcher;
mod workload;

pub use attribution::Attribution;
pub use config::{Config, Members, Profile};
pub use coordinator::EtcdCoordinator;
pub use execute::{execute, execute_to_tell, execute_with};
pub use host_port::HostPort;
pub use mechanism::{Face, Mechanism};
pub use outcome::{Comparison, Outcome, compare, validate, variant_name};
pub use plan::{Commits, Decision, Life, Micro, Op, Operation, Plan, Queued, Recording, Send};
pub use preset::{Preset, presets};
pub use queue::{Queue, SubVia};
pub use scenario::{Expect, Reading, Scenario, Switch, all, find, switches};
pub use sim::trace::Keep;
