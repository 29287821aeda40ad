//! Differences of moto.

use super::{Explained, complete, conditions, fails, get, is_304, is_412, key, upload};
use crate::ops::{Body, Conditions, Op, Since, Tag};
use crate::outcome::Outcome;

pub(super) const EXPLAINED: &[Explained] = &[
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
];
