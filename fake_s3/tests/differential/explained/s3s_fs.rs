//! Differences of s3s-fs, which leaves much of S3 out.

use super::{Explained, complete, fails, fails_as, get, is_304, is_412, key, put, upload};
use crate::ops::{Body, Conditions, MIN_PART_BYTES, Mode, Op, Tag};
use crate::outcome::{Outcome, Page};
use crate::side::UPLOAD_FILLING;
use object_store::GetRange;

pub(super) const EXPLAINED: &[Explained] = &[
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
        name: "a completion that fails leaves its attributes",
        ends: false,
        fits: |_, ours, theirs| {
            let Outcome::Object { size, start, body, tag, filling: Some(leaked) } = theirs else {
                return false;
            };
            let (size, start, body, tag) = (*size, *start, body.clone(), tag.clone());
            let Outcome::Object { filling, .. } = ours else { return false };
            let object = Outcome::Object { size, start, body, tag, filling: filling.clone() };
            *leaked == UPLOAD_FILLING.to_string() && object == *ours
        },
        example: || {
            let mut ops = upload(&[1], &[put(5), complete(&[Some(0), Some(1)])]);
            ops.extend(get(None, Conditions::default()).pop());
            ops
        },
    },
    Explained {
        servers: &["s3s-fs"],
        name: "the copy of an object uploaded in parts keeps its ETag",
        ends: true,
        fits: |_, ours, theirs| {
            let (Outcome::Object { tag: ours, .. }, Outcome::Object { tag: theirs, .. }) = (ours, theirs)
            else {
                return false;
            };
            !ours.0.contains('-') && theirs.0.contains('-')
        },
        example: || {
            let to = "c0".to_string();
            let copy = Op::Copy { from: key(), to: to.clone(), create: false };
            let read = Op::Get { key: to, range: None, conditions: Conditions::default(), head: true };
            upload(&[1], &[complete(&[Some(0)]), copy, read])
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
