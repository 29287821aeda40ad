//! `wavetank proxy`

use super::options;
use super::serve::Signals;
use super::{CliResult, Ending, Unusable};
use scenarios::HostPort;
use scenarios::proxy::{Options, Proxying, parse_faults};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The brokers, separated by commas: they are called broker-1 and up
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', required = true)]
    upstream: Vec<HostPort>,
    /// Where clients reach broker-1; further ones take the ports after it (0: any free port)
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: HostPort,
    /// The host that clients are told to connect to, if not the one of --listen
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Where faults are given and frames let go, over HTTP
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    admin: HostPort,
    /// Faults armed from the start, as a JSON array in the language of plans (docs/serve.md)
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

const EXAMPLES: &str = r#"Example: hold the first EndTxn of jt1 until it is released by hand
  wavetank proxy --upstream 127.0.0.1:9092 --listen 127.0.0.1:19092 --admin 127.0.0.1:19644
  curl 127.0.0.1:19644/faults -d '{"id": 1, "fault": {"hold": {"frame": {"words": "EndTxn id=jt1", "from": "client"}}}}'
  curl 127.0.0.1:19644/log
  curl -X POST 127.0.0.1:19644/release/1"#;

pub(super) fn run(args: &Args) -> CliResult {
    let faults = match &args.faults {
        None => Vec::new(),
        Some(file) => parse_faults(&options::read(file)?, args.upstream.len())
            .map_err(|problem| Unusable::new(format!("{}: {problem}", file.display())))?,
    };
    let options = Options {
        upstream: args.upstream.clone(),
        listen: args.listen.clone(),
        advertise: args.advertise.clone(),
        admin: args.admin.clone(),
        faults,
    };
    super::serve::runtime()?.block_on(proxy(options))
}

async fn proxy(options: Options) -> CliResult {
    let mut signals = Signals::new()?;
    let proxying = Proxying::start(options).await.map_err(Unusable::new)?;
    say!("wavetank {} proxy", env!("CARGO_PKG_VERSION"));
    for line in proxying.describe().await {
        say!("{line}");
    }
    say!("ready");
    signals.next().await;
    say!("stopped: every connection is closed, held frames are dropped");
    Ok(Ending::Expected)
}
