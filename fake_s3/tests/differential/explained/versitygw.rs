//! Differences of versitygw, mostly those of its file system.

use super::{Explained, conditions, fails, get, is_304, is_412, key, put};
use crate::ops::{Body, Conditions, Mode, Op, Since};
use crate::outcome::{Outcome, UploadsPage};

pub(super) const EXPLAINED: &[Explained] = &[
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
        name: "uploads of one key are ordered by their latest part",
        ends: false,
        fits: |_, ours, theirs| {
            let (Outcome::Uploads(a), Outcome::Uploads(b)) = (ours, theirs) else { return false };
            let all = |pages: &[UploadsPage]| {
                let mut uploads: Vec<_> = pages.iter().flat_map(|page| page.0.clone()).collect();
                let keys: Vec<_> = uploads.iter().map(|(key, _)| key.clone()).collect();
                uploads.sort();
                (keys, uploads)
            };
            all(a) == all(b)
        },
        // Its file system's clock may tick only every few milliseconds.
        example: || {
            let create = Op::CreateUpload { key: key() };
            let mut ops = vec![create.clone(), create];
            ops.extend((0..30).map(|_| put(1)));
            ops.push(Op::Part { upload: 1, index: 0, body: Body { filling: 0, size: 1 } });
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
];
