//! `wavetank serve`

use super::{CliResult, Ending, Unusable, options};
use rt::time::timeout;
use scenarios::HostPort;
use scenarios::serve::{NewTopic, Options, Real, Serving, Settings};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Where the first agent listens; further ones take the ports after it (0: any free port)
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    listen: HostPort,
    /// The host that clients are told to connect to, if not the one of --listen
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Number of agents
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    agents: u16,
    /// The first agent's node id; further ones have the ids after it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(0..=1_000_000))]
    node_id: i32,
    /// Where health is told, over HTTP
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    admin: HostPort,
    /// A topic to create (may be repeated)
    #[arg(long = "topic", value_name = "NAME:PARTITIONS")]
    topics: Vec<NewTopic>,
    /// Settings as a JSON object (docs/serve.md)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, over those of the file (may be repeated)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The transaction protocol offered: tv1 or tv2, as `--set transactions.version=1` or 2
    #[arg(long, value_name = "SWITCH", value_parser = ["tv1", "tv2"])]
    with: Option<String>,
    /// A real etcd instead of the embedded model, endpoints separated by commas (needs --store, and a build with
    /// --features etcd,s3)
    #[arg(long, value_name = "http://HOST:PORT,...")]
    etcd: Option<String>,
    /// A real S3 instead of the embedded model; AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT and
    /// AWS_ALLOW_HTTP say how to reach it (needs --etcd)
    #[arg(long, value_name = "s3://BUCKET/PREFIX")]
    store: Option<String>,
}

/// How often a cluster that is not ready says why.
const NOT_READY_INTERVAL: Duration = Duration::from_secs(5);

pub(super) fn run(args: &Args) -> CliResult {
    let real = match (&args.etcd, &args.store) {
        (None, None) => None,
        (Some(etcd), Some(store)) => Some(Real { etcd: etcd.clone(), store: store.clone() }),
        _ => {
            return Err(Unusable::new(
                "--etcd and --store: name both or neither: what outlives this process must not refer to what does not",
            ));
        }
    };
    let options = Options {
        settings: settings(args, real.is_some())?,
        agents: args.agents,
        first_node_id: args.node_id,
        listen: args.listen.clone(),
        advertise: args.advertise.clone(),
        admin: args.admin.clone(),
        topics: args.topics.clone(),
        real,
    };
    runtime()?.block_on(serve(options))
}

/// The threads of a command that serves.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Unusable> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Unusable::new(format!("no threads to serve with: {error}")))
}

/// The defaults, the file over them, single keys over that.
fn settings(args: &Args, real: bool) -> Result<Settings, Unusable> {
    let mut settings = if real { Settings::real() } else { Settings::embedded() };
    if let Some(file) = &args.config {
        let laid = settings.with_json(&options::read(file)?);
        settings = laid.map_err(|problem| Unusable::new(format!("{}: {problem}", file.display())))?;
    }
    if let Some(switch) = &args.with {
        let version = if switch == "tv1" { 1 } else { 2 };
        settings = settings.with_key(&format!("transactions.version={version}")).map_err(Unusable::new)?;
    }
    for key in &args.set {
        let laid = settings.with_key(key);
        settings = laid.map_err(|problem| Unusable::new(format!("--set {key}: {problem}")))?;
    }
    Ok(settings)
}

async fn serve(options: Options) -> CliResult {
    let mut signals = Signals::new()?;
    say!("wavetank {} serve", env!("CARGO_PKG_VERSION"));
    let serving = tokio::select! {
        biased;
        started = Serving::start(options) => started.map_err(Unusable::new)?,
        () = signals.next() => return Ok(Ending::Expected),
    };
    for line in serving.describe() {
        say!("{line}");
    }
    tokio::select! {
        biased;
        () = ready(&serving) => say!("ready"),
        () = signals.next() => return end(&serving, &mut signals).await,
    }
    signals.next().await;
    end(&serving, &mut signals).await
}

/// Waits until the cluster is ready, and says now and then why it is not.
async fn ready(serving: &Serving) {
    while timeout(NOT_READY_INTERVAL, serving.ready()).await.is_err() {
        eprintln!("not ready: {}", serving.not_ready().join("; "));
    }
}

/// Ends in order; a second signal ends at once.
async fn end(serving: &Serving, signals: &mut Signals) -> CliResult {
    say!("stopping: what is in flight is answered first; a second signal ends at once");
    tokio::select! {
        biased;
        how = serving.drain() => {
            say!("{how}");
            Ok(Ending::Expected)
        }
        () = signals.next() => {
            say!("stopped at once: what was in flight is not answered");
            Ok(Ending::Unexpected)
        }
    }
}

/// SIGINT and SIGTERM.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Unusable> {
        let handler =
            |kind| signal(kind).map_err(|error| Unusable::new(format!("no signal handler: {error}")));
        Ok(Signals {
            interrupt: handler(SignalKind::interrupt())?,
            terminate: handler(SignalKind::terminate())?,
        })
    }

    /// Waits for the next of either.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
