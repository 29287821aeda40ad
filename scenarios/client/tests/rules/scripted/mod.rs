//! Two scripted agents in the tank, `agent-0` and `agent-1`, which share their logs: enough of a broker to answer a client,
//! and to do on cue what a script says. They keep what they were asked.

mod answers;
mod log;

use bytes::{BufMut, Bytes, BytesMut};
use client::{ProducerRecord, TopicPartition};
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Encodable, HeaderVersion, Request, decode_request_header_from_buffer};
use log::Log;
use rt::net::{TcpListener, TcpStream, read_frame};
use sim::node::{self, Role};
use sim::run::{Config, End};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Where agents listen.
const PORT: u16 = 9092;

/// What an agent was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) agent: usize,
    /// Which of all connections, from 1.
    pub(crate) connection: u64,
    /// Simulated milliseconds.
    pub(crate) at_ms: u64,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    /// The request without its header.
    pub(crate) body: Bytes,
}

/// What an agent does about a request, instead of answering as a broker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing, neither to it nor to whatever comes later on its connection.
    Mute,
    /// Nothing, neither to it nor to whatever comes to this agent later.
    Silence,
    /// As a broker does, but the answer is lost, as are all later ones of the connection.
    LoseAnswer,
    /// As a broker does, so much later.
    Delay(Duration),
    /// With this error code.
    Code(i16),
}

/// A cue: the next request of `api`.
struct Cue {
    api: ApiKey,
    /// Only at this agent.
    agent: Option<usize>,
    /// How often it applies.
    times: u32,
    reaction: Reaction,
}

#[derive(Default)]
pub(crate) struct State {
    asked: Vec<Asked>,
    cues: Vec<Cue>,
    connections: u64,
    ended_connections: usize,
    silent: [bool; 2],
    pub(crate) logs: BTreeMap<TopicPartition, Log>,
    /// Who leads and who coordinates; without a name whoever is asked.
    pub(crate) leader: Option<usize>,
    pub(crate) coordinator: Option<usize>,
    pub(crate) leader_epoch: i32,
    /// Metadata answers name no agents.
    pub(crate) nobody_known: bool,
    pub(crate) epoch: i16,
    /// The finalized level of `transaction.version`.
    pub(crate) transaction_version: i16,
    pub(crate) committed: BTreeMap<TopicPartition, i64>,
    pub(crate) group: answers::Group,
}

/// The cluster.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    state: Arc<Mutex<State>>,
}

/// Plays `script` on a machine of its own, beside the agents; what it returns.
pub(crate) fn play<T, F, S>(script: S) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
    S: FnOnce(Scripted) -> F + Send + 'static,
{
    let config = Config { seed: 1, frame_ports: vec![PORT], limit_ms: 3_600_000, ..Config::default() };
    let run = sim::run(&config, move || async move {
        let cluster = Scripted::default();
        for agent in 0..2 {
            let cluster = cluster.clone();
            node::add(&format!("agent-{agent}"), Role::Agent, None, move |_| {
                Box::pin(cluster.clone().listen(agent))
            });
        }
        let (script, value) = (Mutex::new(Some(script)), Arc::new(Mutex::new(None)));
        let out = value.clone();
        node::add("client", Role::Client, None, move |_| {
            let (script, cluster, out) = (script.lock().unwrap().take(), cluster.clone(), out.clone());
            Box::pin(async move {
                let script = script.expect("a client starts once");
                let value = script(cluster).await;
                *out.lock().unwrap() = Some(value);
            })
        });
        while value.lock().unwrap().is_none() && node::is_up("client") {
            rt::time::sleep(Duration::from_millis(10)).await;
        }
        value.lock().unwrap().take()
    });
    assert!(run.failures.is_empty(), "{:?}", run.failures);
    assert_eq!(run.end, End::Done);
    run.value.flatten().expect("the script has come to its end")
}

impl Scripted {
    /// Where the agents are, the first of them first.
    pub(crate) fn addresses(&self) -> Vec<String> {
        (0..2).map(|agent| format!("agent-{agent}:{PORT}")).collect()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The next request of `api` is treated so.
    pub(crate) fn on(&self, api: ApiKey, reaction: Reaction) {
        self.state().cues.push(Cue { api, agent: None, times: 1, reaction });
    }

    /// The next request of `api` to `agent` is treated so.
    pub(crate) fn on_agent(&self, agent: usize, api: ApiKey, reaction: Reaction) {
        self.state().cues.push(Cue { api, agent: Some(agent), times: 1, reaction });
    }

    /// So are all from now on.
    pub(crate) fn always(&self, api: ApiKey, reaction: Reaction) {
        self.state().cues.push(Cue { api, agent: None, times: u32::MAX, reaction });
    }

    /// Every request of `api`, in order.
    pub(crate) fn asked(&self, api: ApiKey) -> Vec<Asked> {
        self.state().asked.iter().filter(|asked| asked.api == api).cloned().collect()
    }

    /// Connections that clients have ended.
    pub(crate) fn ended_connections(&self) -> usize {
        self.state().ended_connections
    }

    async fn listen(self, agent: usize) {
        let listener = TcpListener::bind(&format!("agent-{agent}:{PORT}")).await.unwrap();
        while let Ok(stream) = listener.accept().await {
            let connection = {
                let mut state = self.state();
                state.connections += 1;
                state.connections
            };
            rt::spawn("agent.connection", self.clone().serve(agent, connection, stream));
        }
    }

    async fn serve(self, agent: usize, connection: u64, stream: TcpStream) {
        let (mut reader, mut writer) = stream.into_split();
        let mut mute = false;
        while let Ok(Some(mut frame)) = read_frame(&mut reader, 1 << 20).await {
            let header = decode_request_header_from_buffer(&mut frame).unwrap();
            let reaction = self.hear(agent, connection, &header, &frame);
            let mut answer = None;
            match reaction {
                Some(Reaction::Mute) => mute = true,
                Some(Reaction::Silence) => self.state().silent[agent] = true,
                Some(Reaction::Code(code)) => answer = Some(answers::refuse(&header, frame, code)),
                Some(Reaction::LoseAnswer) => {
                    self.state().answer(agent, &header, frame);
                    mute = true;
                }
                Some(Reaction::Delay(wait)) => {
                    rt::time::sleep(wait).await;
                    answer = Some(self.state().answer(agent, &header, frame));
                }
                None if mute || self.state().silent[agent] => {}
                None => answer = Some(self.state().answer(agent, &header, frame)),
            }
            if let Some(answer) = answer
                && writer.write_frame(&answer, String::new).await.is_err()
            {
                break;
            }
        }
        self.state().ended_connections += 1;
    }

    /// Notes a request; the cue that it gives.
    fn hear(&self, agent: usize, connection: u64, header: &RequestHeader, body: &Bytes) -> Option<Reaction> {
        let api = ApiKey::try_from(header.request_api_key).unwrap();
        let at_ms = rt::time::Instant::now().as_nanos() / 1_000_000;
        let version = header.request_api_version;
        let mut state = self.state();
        state.asked.push(Asked { agent, connection, at_ms, api, version, body: body.clone() });
        let fits = |cue: &&mut Cue| {
            cue.api == api && cue.times > 0 && cue.agent.is_none_or(|wanted| wanted == agent)
        };
        let cue = state.cues.iter_mut().find(fits)?;
        cue.times -= 1;
        Some(cue.reaction)
    }
}

/// A request as it was asked.
pub(crate) fn decode_body<R: Request>(asked: &Asked) -> R {
    R::decode(&mut asked.body.clone(), asked.version).unwrap()
}

fn decode<R: Request>(header: &RequestHeader, mut body: Bytes) -> R {
    R::decode(&mut body, header.request_api_version).unwrap()
}

fn reply<R: Encodable + HeaderVersion>(header: &RequestHeader, response: R) -> Bytes {
    let version = header.request_api_version;
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    let answer = ResponseHeader::default().with_correlation_id(header.correlation_id);
    answer.encode(&mut frame, R::header_version(version)).unwrap();
    response.encode(&mut frame, version).unwrap();
    let length = (frame.len() - 4) as i32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

/// Partition `number` of the topic `t`, which has two.
pub(crate) fn t(number: i32) -> TopicPartition {
    TopicPartition::new("t", number)
}

/// A record for the first of them.
pub(crate) fn record(value: &'static str) -> ProducerRecord {
    ProducerRecord::new(t(0), value)
}
