//! Where a real server differs from what Amazon documents, and we follow the documentation. Each has an example, run
//! as a test: it must still differ, in this very way.
//!
//! Limits: a difference is told by the operation and both outcomes, not by what led to it.

mod moto;
mod s3s_fs;
mod several;
mod versitygw;

use crate::ops::{Body, Conditions, Mode, Op, Step};
use crate::outcome::Outcome;
use object_store::GetRange;

pub(crate) struct Explained {
    pub(crate) servers: &'static [&'static str],
    /// Short, and the same as in `docs/fidelity-s3.md`.
    pub(crate) name: &'static str,
    /// Whether the stores may hold different things afterwards, so that the case ends here.
    pub(crate) ends: bool,
    pub(crate) fits: fn(&Op, &Outcome, &Outcome) -> bool,
    /// Operations, of which the last differs so.
    pub(crate) example: fn() -> Vec<Op>,
}

impl Explained {
    pub(crate) fn steps(&self) -> Vec<Step> {
        (1..).zip((self.example)()).map(|(id, op)| Step { id, op }).collect()
    }
}

/// The differences of a server.
pub(crate) fn of(server: &str) -> impl Iterator<Item = &'static Explained> {
    let all = [several::EXPLAINED, moto::EXPLAINED, versitygw::EXPLAINED, s3s_fs::EXPLAINED];
    all.into_iter().flatten().filter(move |one| one.servers.contains(&server))
}

pub(crate) fn explain(server: &str, op: &Op, ours: &Outcome, theirs: &Outcome) -> Option<&'static Explained> {
    of(server).find(|one| (one.fits)(op, ours, theirs))
}

/// An error with this code; none where the answer told none.
fn fails(outcome: &Outcome, wanted: Option<&str>) -> bool {
    matches!(outcome, Outcome::Failed { code, .. } if code.as_deref() == wanted)
}

fn is_412(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { variant: "Precondition", .. })
}

fn is_304(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { variant: "NotModified", .. })
}

fn fails_as(outcome: &Outcome, codes: &[&str]) -> bool {
    codes.iter().any(|code| fails(outcome, Some(code)))
}

fn conditions(op: &Op) -> Conditions {
    match op {
        Op::Get { conditions, .. } => *conditions,
        _ => Conditions::default(),
    }
}

fn key() -> String {
    "a".to_string()
}

fn put(size: usize) -> Op {
    Op::Put { key: key(), body: Body { filling: 0, size }, mode: Mode::Overwrite }
}

fn get(range: Option<GetRange>, conditions: Conditions) -> Vec<Op> {
    vec![put(5), Op::Get { key: key(), range, conditions, head: false }]
}

/// An upload with a part of each size, and then more.
fn upload(sizes: &[usize], then: &[Op]) -> Vec<Op> {
    let mut ops = vec![Op::CreateUpload { key: key() }];
    ops.extend(sizes.iter().enumerate().map(|(index, size)| Op::Part {
        upload: 1,
        index,
        body: Body { filling: 1, size: *size },
    }));
    ops.extend_from_slice(then);
    ops
}

fn complete(parts: &[Option<usize>]) -> Op {
    Op::Complete { upload: 1, parts: parts.to_vec() }
}
