//! Where a real server differs from what Amazon documents, and we follow the documentation. Each has an example, run
//! as a test: it must still differ, in this very way.
//!
//! Limits: a difference is told by the operation and both outcomes, not by what led to it.

use crate::ops::{Body, Conditions, MIN_PART_BYTES, Mode, Op, Since, Step, Tag};
use crate::side::{Outcome, Page};
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

pub(crate) fn explain(server: &str, op: &Op, ours: &Outcome, theirs: &Outcome) -> Option<&'static Explained> {
    EXPLAINED.iter().find(|one| one.servers.contains(&server) && (one.fits)(op, ours, theirs))
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

pub(crate) const EXPLAINED: &[Explained] = &[
    Explained {
        servers: &["moto", "s3s-fs", "versitygw"],
        name: "CopyObject ignores If-None-Match",
        ends: true,
        fits: |op, ours, theirs| {
            let creates = matches!(op, Op::Copy { create: true, .. });
            creates && fails(ours, Some("PreconditionFailed")) && *theirs == Outcome::Done
        },
        example: || {
            let other =
                Op::Put { key: "c0".to_string(), body: Body { filling: 1, size: 1 }, mode: Mode::Overwrite };
            vec![put(5), other, Op::Copy { from: key(), to: "c0".to_string(), create: true }]
        },
    },
    Explained {
        servers: &["moto", "versitygw"],
        name: "of two faults in a completion, the other is told",
        ends: false,
        fits: |op, ours, theirs| {
            let both = ["InvalidPart", "EntityTooSmall"];
            matches!(op, Op::Complete { .. }) && fails_as(ours, &both) && fails_as(theirs, &both)
        },
        example: || upload(&[1, 1], &[complete(&[Some(0), None]), complete(&[None, None])]),
    },
    Explained {
        servers: &["moto", "versitygw"],
        name: "the last bytes of an empty object are all of it",
        ends: false,
        fits: |op, ours, theirs| {
            // The whole object where a part was asked for, which `object_store` takes for an error.
            let last = matches!(op, Op::Get { range: Some(GetRange::Suffix(_)), .. });
            last && fails(ours, Some("InvalidRange")) && fails(theirs, None)
        },
        example: || {
            let conditions = Conditions::default();
            vec![put(0), Op::Get { key: key(), range: Some(GetRange::Suffix(5)), conditions, head: false }]
        },
    },
    // moto
    Explained {
        servers: &["moto"],
        name: "reads know no star for an ETag",
        ends: false,
        fits: |op, ours, theirs| {
            let Conditions { if_match, if_none_match, .. } = conditions(op);
            matches!(if_match, Some(Tag::Any)) && is_412(theirs)
                || matches!(if_none_match, Some(Tag::Any)) && is_304(ours) && !is_304(theirs)
        },
        example: || get(None, Conditions { if_match: Some(Tag::Any), ..Default::default() }),
    },
    Explained {
        servers: &["moto"],
        name: "If-Unmodified-Since is not outweighed by If-Match",
        ends: false,
        fits: |op, ours, theirs| {
            let Conditions { if_match, if_unmodified, .. } = conditions(op);
            if_match.is_some()
                && matches!(if_unmodified, Some(Since::Before))
                && !is_412(ours)
                && is_412(theirs)
        },
        example: || {
            let conditions = Conditions {
                if_match: Some(Tag::Of(1)),
                if_unmodified: Some(Since::Before),
                ..Default::default()
            };
            get(None, conditions)
        },
    },
    Explained {
        servers: &["moto"],
        name: "If-Modified-Since is not outweighed by If-None-Match",
        ends: false,
        fits: |op, ours, theirs| {
            let Conditions { if_none_match, if_modified, .. } = conditions(op);
            if_none_match.is_some()
                && matches!(if_modified, Some(Since::Then))
                && !is_304(ours)
                && is_304(theirs)
        },
        example: || {
            let conditions = Conditions {
                if_none_match: Some(Tag::Wrong),
                if_modified: Some(Since::Then),
                ..Default::default()
            };
            get(None, conditions)
        },
    },
    Explained {
        servers: &["moto"],
        name: "an upload that is gone is a bad request without a code",
        ends: false,
        fits: |_, ours, theirs| {
            fails(ours, Some("NoSuchUpload")) && *theirs == Outcome::Failed { variant: "Generic", code: None }
        },
        example: || upload(&[1], &[Op::Abort { upload: 1 }, complete(&[Some(0)])]),
    },
    Explained {
        servers: &["moto"],
        name: "uploads are listed by creation, on one page, and not rolled up",
        ends: false,
        fits: |op, ours, theirs| {
            let (Outcome::Uploads(ours), Outcome::Uploads(theirs)) = (ours, theirs) else { return false };
            let Op::ListUploads { prefix, delimiter, .. } = op else { return false };
            let mut all: Vec<_> = theirs.iter().flat_map(|page| page.0.clone()).collect();
            all.sort();
            let rolls =
                |key: &str| delimiter.is_some_and(|delimiter| key[prefix.len()..].contains(delimiter));
            all.retain(|(key, _)| !rolls(key));
            let listed: Vec<_> = ours.iter().flat_map(|page| page.0.clone()).collect();
            theirs.len() == 1 && all == listed
        },
        example: || {
            let list = Op::ListUploads { prefix: String::new(), delimiter: None, max_uploads: 1 };
            vec![Op::CreateUpload { key: "b/1".to_string() }, Op::CreateUpload { key: key() }, list]
        },
    },
    Explained {
        servers: &["moto"],
        name: "the first page of a list of parts may end it",
        ends: false,
        fits: |_, ours, theirs| {
            let (Outcome::Parts(ours), Outcome::Parts(theirs)) = (ours, theirs) else { return false };
            theirs.len() == 1 && ours.len() > 1 && ours[0] == theirs[0]
        },
        example: || {
            let part = |index| Op::Part { upload: 1, index, body: Body { filling: 0, size: 1 } };
            let list = Op::ListParts { upload: 1, max_parts: 1 };
            vec![Op::CreateUpload { key: key() }, part(1), part(2), list]
        },
    },
    // versitygw
    Explained {
        servers: &["versitygw"],
        name: "dates are compared to the nanosecond",
        ends: false,
        fits: |op, ours, theirs| {
            let Conditions { if_modified, if_unmodified, .. } = conditions(op);
            matches!(if_modified, Some(Since::Then)) && is_304(ours) && !is_304(theirs)
                || matches!(if_unmodified, Some(Since::Then)) && !is_412(ours) && is_412(theirs)
        },
        example: || get(None, Conditions { if_modified: Some(Since::Then), ..Default::default() }),
    },
    Explained {
        servers: &["versitygw"],
        name: "a completed upload can be completed again",
        ends: false,
        fits: |op, ours, theirs| {
            let completes = matches!(op, Op::Complete { .. });
            completes && fails(ours, Some("NoSuchUpload")) && matches!(theirs, Outcome::Written(_))
        },
        example: || upload(&[1], &[complete(&[Some(0)]), complete(&[Some(0)])]),
    },
    Explained {
        servers: &["versitygw"],
        name: "a list may end on an empty page",
        ends: false,
        fits: |_, ours, theirs| {
            let (Outcome::Pages(ours), Outcome::Pages(theirs)) = (ours, theirs) else { return false };
            let Some((last, pages)) = theirs.split_last() else { return false };
            pages == ours && last.objects.is_empty() && last.prefixes.is_empty()
        },
        example: || {
            let other =
                Op::Put { key: "b/1".to_string(), body: Body { filling: 0, size: 1 }, mode: Mode::Overwrite };
            let list = Op::Pages { prefix: key(), delimiter: None, offset: None, max_keys: 1 };
            vec![put(5), other, list]
        },
    },
    Explained {
        servers: &["versitygw"],
        name: "uploads of one key are in any order",
        ends: false,
        fits: |_, ours, theirs| {
            let (Outcome::Uploads(a), Outcome::Uploads(b)) = (ours, theirs) else { return false };
            let all = |pages: &[(Vec<(String, u32)>, Vec<String>)]| {
                let mut uploads: Vec<_> = pages.iter().flat_map(|page| page.0.clone()).collect();
                let keys: Vec<_> = uploads.iter().map(|(key, _)| key.clone()).collect();
                uploads.sort();
                (keys, uploads)
            };
            all(a) == all(b)
        },
        // By chance they are in order once in 40,320 times.
        example: || {
            let mut ops: Vec<Op> = (0..8).map(|_| Op::CreateUpload { key: key() }).collect();
            ops.push(Op::ListUploads { prefix: String::new(), delimiter: None, max_uploads: 1000 });
            ops
        },
    },
    Explained {
        servers: &["versitygw"],
        name: "no page of uploads begins between those of one key",
        ends: false,
        fits: |_, ours, theirs| {
            let Outcome::Uploads(pages) = ours else { return false };
            pages.len() > 1 && fails(theirs, Some("InvalidArgument"))
        },
        example: || {
            let create = Op::CreateUpload { key: key() };
            let list = Op::ListUploads { prefix: String::new(), delimiter: None, max_uploads: 1 };
            vec![create.clone(), create, list]
        },
    },
    // s3s-fs
    Explained {
        servers: &["s3s-fs"],
        name: "reads know no conditions",
        ends: false,
        fits: |op, ours, theirs| {
            matches!(op, Op::Get { .. })
                && (is_412(ours) || is_304(ours))
                && !is_412(theirs)
                && !is_304(theirs)
        },
        example: || get(None, Conditions { if_match: Some(Tag::Wrong), ..Default::default() }),
    },
    Explained {
        servers: &["s3s-fs"],
        name: "the last bytes of a shorter object are an internal error",
        ends: false,
        fits: |op, _, theirs| {
            matches!(op, Op::Get { range: Some(GetRange::Suffix(_)), .. })
                && fails(theirs, Some("InternalError"))
        },
        example: || get(Some(GetRange::Suffix(6)), Conditions::default()),
    },
    Explained {
        servers: &["s3s-fs"],
        name: "If-Match on a missing object fails the condition",
        ends: false,
        fits: |op, ours, theirs| {
            let put = matches!(op, Op::Put { mode: Mode::Update(_), .. });
            put && fails(ours, Some("NoSuchKey")) && fails(theirs, Some("PreconditionFailed"))
        },
        example: || {
            vec![Op::Put { key: key(), body: Body { filling: 0, size: 1 }, mode: Mode::Update(Tag::Wrong) }]
        },
    },
    Explained {
        servers: &["s3s-fs"],
        name: "If-Match takes a star",
        ends: true,
        fits: |op, ours, theirs| {
            let put = matches!(op, Op::Put { mode: Mode::Update(Tag::Any), .. });
            put && is_412(ours) && matches!(theirs, Outcome::Written(_))
        },
        example: || {
            let star =
                Op::Put { key: key(), body: Body { filling: 1, size: 1 }, mode: Mode::Update(Tag::Any) };
            vec![put(5), star]
        },
    },
    Explained {
        servers: &["s3s-fs"],
        name: "an object is copied onto itself",
        ends: false,
        fits: |op, ours, theirs| {
            matches!(op, Op::Copy { .. }) && fails(ours, Some("InvalidRequest")) && *theirs == Outcome::Done
        },
        example: || vec![put(5), Op::Copy { from: key(), to: key(), create: false }],
    },
    Explained {
        servers: &["s3s-fs"],
        name: "an upload that is gone is denied",
        ends: false,
        fits: |_, ours, theirs| fails(ours, Some("NoSuchUpload")) && fails(theirs, Some("AccessDenied")),
        example: || upload(&[1], &[Op::Abort { upload: 1 }, complete(&[Some(0)])]),
    },
    Explained {
        servers: &["s3s-fs"],
        name: "a completion that fails ends the upload",
        ends: true,
        fits: |op, ours, theirs| {
            let own = matches!(op, Op::Complete { .. } | Op::Part { .. } | Op::Abort { .. });
            let gone = fails_as(theirs, &["AccessDenied", "InternalError"]);
            own && gone && !fails(ours, Some("NoSuchUpload"))
        },
        example: || {
            let again = Op::Part { upload: 1, index: 0, body: Body { filling: 0, size: 1 } };
            upload(&[1, 1], &[complete(&[Some(0), Some(1)]), again])
        },
    },
    Explained {
        servers: &["s3s-fs"],
        name: "a completion does not look at ETags",
        ends: true,
        fits: |op, ours, theirs| {
            let completes = matches!(op, Op::Complete { .. });
            let known = matches!(theirs, Outcome::Written(_)) || fails(theirs, Some("EntityTooSmall"));
            completes && fails(ours, Some("InvalidPart")) && known
        },
        example: || upload(&[MIN_PART_BYTES], &[complete(&[None])]),
    },
    Explained {
        servers: &["s3s-fs"],
        name: "objects are listed without ETags",
        ends: false,
        fits: |_, ours, theirs| {
            let (Outcome::Pages(a), Outcome::Pages(b)) = (ours, theirs) else { return false };
            let bare = |pages: &[Page]| -> Vec<_> {
                let objects =
                    |page: &Page| page.objects.iter().map(|one| (one.0.clone(), one.1)).collect::<Vec<_>>();
                pages.iter().map(|page| (objects(page), page.prefixes.clone())).collect()
            };
            bare(a) == bare(b) && theirs.tags().iter().all(|tag| tag.0.is_empty())
        },
        example: || vec![put(5), Op::Directory { prefix: None }],
    },
    Explained {
        servers: &["s3s-fs"],
        name: "parts are listed without ETags, in no order, on one page",
        ends: false,
        fits: |op, ours, theirs| {
            let asks = matches!(op, Op::ListParts { .. });
            let ours = matches!(ours, Outcome::Parts(_)) || fails(ours, Some("NoSuchUpload"));
            // Without an ETag none counts as listed.
            asks && ours && *theirs == Outcome::Parts(vec![Vec::new()])
        },
        example: || upload(&[1], &[Op::ListParts { upload: 1, max_parts: 1 }]),
    },
    Explained {
        servers: &["s3s-fs"],
        name: "uploads cannot be listed",
        ends: false,
        fits: |_, ours, theirs| matches!(ours, Outcome::Uploads(_)) && fails(theirs, Some("NotImplemented")),
        example: || vec![Op::ListUploads { prefix: String::new(), delimiter: None, max_uploads: 1 }],
    },
];
