//! The tank: a seeded machine room.
//!
//! * [`run()`]: one run of a script in a world of its own; [`run::Config`] is what it needs, [`run::Run`] what came of it
//! * [`node`]: machines and processes, which start, crash, restart, pause and resume
//! * [`net`]: the kernel network between them, which is not the process
//! * [`fault`]: the fault alphabet, as data; a schedule of faults is part of a plan
//! * [`choice`]: chance as a pure function of the seed and a stable name
//! * [`trace`]: what happened, because of what, and the fingerprint of it all
//! * [`property`]: claims about runs
//! * [`plan`]: a plan, and a recording of what it must show; [`shrink`] makes it small
//! * [`nemesis`]: schedules drawn by swarm
//! * [`determinism`]: the same plan must give the same trace
//!
//! Code inside runs against [`rt`] and cannot tell. This crate knows no Kafka, etcd or S3.

#[cfg(not(madsim))]
compile_error!(
    "wavetank needs `--cfg madsim`, which .cargo/config.toml of this repository sets. It is missing: a RUSTFLAGS \
     variable replaces that setting (unset it, or add `--cfg madsim` to it), and so does building from outside the \
     repository (run cargo inside it)."
);

pub mod choice;
mod clock;
pub mod determinism;
mod exec;
pub mod fault;
mod host;
pub mod nemesis;
pub mod net;
pub mod node;
mod panics;
pub mod plan;
pub mod property;
mod room;
pub mod run;
pub mod shrink;
mod stop;
mod strike;
mod tap;
mod timer;
pub mod trace;
mod trouble;
mod world;

pub use run::run;
