//! `wavetank serve` and `wavetank proxy` as processes: what they say, how they end, what they refuse.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

struct Served {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Served {
    /// Starts the command and reads what it says up to `ready`.
    fn start(args: &[&str]) -> (Self, Vec<String>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_wavetank"))
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let mut served = Served { child, out };
        let mut said = Vec::new();
        while said.last().is_none_or(|line| line != "ready") {
            said.push(served.line().expect("it gets ready"));
        }
        (served, said)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.out.read_line(&mut line).expect("text");
        (read > 0).then(|| line.trim_end().to_string())
    }

    /// Sends a signal, by its name.
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// What it said to the end, and its status.
    fn end(mut self) -> (Vec<String>, Option<i32>) {
        let mut said = Vec::new();
        while let Some(line) = self.line() {
            said.push(line);
        }
        (said, self.child.wait().expect("it ends").code())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const ANY: &str = "127.0.0.1:0";

#[test]
fn it_says_what_it_serves_and_ends_in_order() {
    for signal in ["TERM", "INT"] {
        let topics = ["--topic", "orders:3", "--topic", "late:1"];
        let (served, said) = Served::start(
            &[&["serve", "--listen", ANY, "--agents", "2", "--with", "tv1"], &topics[..]].concat(),
        );
        assert_eq!(said[0], concat!("wavetank ", env!("CARGO_PKG_VERSION"), " serve"));
        assert_eq!(
            said[1..6],
            [
                "coordinator: embedded etcd model, in memory",
                "store: embedded S3 model, in memory",
                "transactions: version 1",
                "topic orders: 3 partitions",
                "topic late: 1 partitions",
            ]
        );
        let bootstrap = said[6].strip_prefix("bootstrap: 127.0.0.1:").expect("an address");
        let ports: Vec<u16> = bootstrap.split(",127.0.0.1:").map(|port| port.parse().unwrap()).collect();
        assert_eq!(ports.len(), 2);
        assert!(said[7].starts_with("admin: http://127.0.0.1:"), "{said:?}");
        served.signal(signal);
        let (said, status) = served.end();
        assert_eq!(said[0], "stopping: what is in flight is answered first; a second signal ends at once");
        assert!(said[1].starts_with("stopped: 2 agents drained in 0."), "{said:?}");
        assert_eq!(status, Some(0));
    }
}

#[test]
fn the_next_agents_take_the_next_ports() {
    let (served, said) = Served::start(&["serve", "--listen", ANY]);
    let address = said.iter().find_map(|line| line.strip_prefix("bootstrap: ")).unwrap().to_string();
    let message = refused(&["serve", "--listen", &address]);
    let taken = format!(
        "--listen: {address} is taken: stop what listens there, or choose another port (0 takes any free one)"
    );
    assert_eq!(message, format!("wavetank: {taken}\n"));
    let admin = said.iter().find_map(|line| line.strip_prefix("admin: http://")).unwrap().to_string();
    assert!(
        refused(&["serve", "--listen", ANY, "--admin", &admin])
            .contains(&format!("--admin: {admin} is taken"))
    );
    // The second agent's port is the one after the first's.
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let before = format!("127.0.0.1:{}", port - 1);
    let message = refused(&["serve", "--listen", &before, "--agents", "2"]);
    assert!(message.contains(" is taken"), "{message}");
    drop(served);
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wavetank")).args(args).output().expect("the command starts")
}

/// What a command says that is refused.
fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test keeps its files in the folder that cargo gives it")]
fn file(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("writable");
    path.display().to_string()
}

#[test]
fn what_cannot_be_served_is_refused_with_status_2() {
    let serve = |args: &[&str]| refused(&[&["serve", "--listen", ANY], args].concat());
    let unknown = file("unknown.json", r#"{"transactions": {"versoin": 1}}"#);
    let message = serve(&["--config", &unknown]);
    let expected = format!(
        "wavetank: {unknown}: transactions.versoin: unknown field `versoin`, expected one of `version`"
    );
    assert!(message.starts_with(&expected), "{message}");
    assert!(serve(&["--config", "absent.json"]).starts_with("wavetank: absent.json: cannot be read"));
    let set = serve(&["--set", "lease_ttl_s=soon"]);
    assert!(set.starts_with("wavetank: --set lease_ttl_s=soon: lease_ttl_s: invalid type"), "{set}");
    assert!(serve(&["--set", "node_id=3"]).contains("node_id: every agent has its own"));
    assert!(serve(&["--topic", "orders"]).contains("write NAME:PARTITIONS, for example orders:3"));
    assert!(serve(&["--topic", "or/ders:1"]).contains("--topic: or/ders:1: "));
    assert!(serve(&["--agents", "0"]).contains("--agents"));
    assert!(
        serve(&["--etcd", "http://127.0.0.1:1"])
            .starts_with("wavetank: --etcd and --store: name both or neither")
    );
    assert!(refused(&["serve", "--listen", "9092"]).contains("write HOST:PORT"));
    assert!(
        refused(&["serve", "--listen", "0.0.0.0:0"]).contains("name one for clients with --advertise HOST")
    );
}

#[test]
fn a_proxy_says_where_it_stands_and_refuses_what_it_cannot_do() {
    let (served, said) = Served::start(&["proxy", "--upstream", "127.0.0.1:1,127.0.0.1:2"]);
    assert!(said[1].starts_with("broker-1: 127.0.0.1:") && said[1].ends_with(" -> 127.0.0.1:1"), "{said:?}");
    assert!(said[2].starts_with("broker-2: 127.0.0.1:") && said[2].ends_with(" -> 127.0.0.1:2"), "{said:?}");
    served.signal("TERM");
    assert_eq!(served.end().1, Some(0));
    let drift = file(
        "drift.json",
        r#"[{"id": 1, "fault": {"clock_drift": {"node": "broker-1", "ppm": 1, "for_ms": 1}}}]"#,
    );
    let message = refused(&["proxy", "--upstream", "127.0.0.1:1", "--faults", &drift]);
    assert_eq!(message, format!("wavetank: {drift}: [0].fault.clock_drift: a proxy cannot set a clock\n"));
}

#[test]
#[cfg(not(feature = "etcd"))]
fn a_build_without_a_real_etcd_says_how_to_get_one() {
    let message =
        refused(&["serve", "--listen", ANY, "--etcd", "http://127.0.0.1:1", "--store", "s3://bucket"]);
    assert!(
        message.starts_with("wavetank: --etcd: this build has no client of a real etcd: build with"),
        "{message}"
    );
    assert!(message.contains("--features etcd,s3"), "{message}");
}
