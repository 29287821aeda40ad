//! Differences of more than one server.

use super::{Explained, complete, fails, fails_as, key, put, upload};
use crate::ops::{Body, Conditions, Mode, Op};
use crate::outcome::Outcome;
use object_store::GetRange;

pub(super) const EXPLAINED: &[Explained] = &[
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
    Explained {
        servers: &["moto", "versitygw"],
        name: "a completed upload can be completed again",
        ends: false,
        fits: |op, ours, theirs| {
            let completes = matches!(op, Op::Complete { .. });
            completes && fails(ours, Some("NoSuchUpload")) && matches!(theirs, Outcome::Written(_))
        },
        example: || upload(&[1], &[complete(&[Some(0)]), complete(&[Some(0)])]),
    },
];
