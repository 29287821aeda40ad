//! Real servers and fakes to compare, as processes that can be stopped and continued.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A child process that ends with its owner, and its data with it.
pub(crate) struct Process {
    child: Child,
    data: Option<PathBuf>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself, or been killed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(data) = &self.data {
            let _ = std::fs::remove_dir_all(data);
        }
    }
}

impl Process {
    pub(crate) fn spawn(command: &mut Command, data: Option<PathBuf>) -> Process {
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
        Process { child, data }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status =
            Command::new("kill").args([&format!("-{signal}"), &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "{signal} did not reach the process");
    }

    /// Stops it. A signal is delivered to each thread in its time, so this waits until all of them stand still.
    pub(crate) fn stop(&self) {
        self.signal("STOP");
        let began = Instant::now();
        while self.states().iter().any(|state| *state != 'T') {
            assert!(began.elapsed() < Duration::from_secs(10), "the process does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What each of its threads does, as proc(5) abbreviates it.
    fn states(&self) -> Vec<char> {
        let tasks =
            std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the process is there");
        let stat = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.ok()?.path().join("stat")).ok()
        };
        let state = |stat: String| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        tasks.filter_map(stat).filter_map(state).collect()
    }

    pub(crate) fn stdout(&mut self) -> std::process::ChildStdout {
        self.child.stdout.take().expect("it was piped, and taken once")
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("it is bound").port()
}

/// Starts an etcd of one member on fresh data, in memory where there is a place for it.
pub(crate) fn start_etcd(program: &Path) -> (Process, String) {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let (client, peer) = (free_port(), free_port());
    let data = base.join(format!("wavetank-etcd-{}-{client}", std::process::id()));
    let process = serve_etcd(program, &data, client, peer);
    (process, format!("http://127.0.0.1:{client}"))
}

/// Kills an etcd without warning and starts it again on its data.
pub(crate) fn kill_and_restart_etcd(process: &mut Process, program: &Path, endpoint: &str) {
    process.signal("KILL");
    process.child.wait().expect("it was started here");
    let data = process.data.take().expect("an etcd has data");
    let port =
        endpoint.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("an endpoint has a port");
    *process = serve_etcd(program, &data, port, free_port());
}

fn serve_etcd(program: &Path, data: &Path, client: u16, peer: u16) -> Process {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut command = Command::new(program);
    command
        .args(["--name", "one", "--data-dir"])
        .arg(data)
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("one={peer}"), "--log-level", "error"])
        .stdout(Stdio::null())
        .env_clear();
    Process::spawn(&mut command, Some(data.to_path_buf()))
}
