//! Operations of a case, drawn from its seed.
//!
//! What an operation refers to (an ETag, an upload) it names by the step that made it, so that steps can be left out
//! and the rest still means what it meant.

use object_store::GetRange;

/// The least size of a part other than the last.
pub(crate) const MIN_PART_BYTES: usize = 5 * 1024 * 1024;

/// One operation and the number that others refer to it by.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) id: u32,
    pub(crate) op: Op,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put {
        key: String,
        body: Body,
        mode: Mode,
    },
    Get {
        key: String,
        range: Option<GetRange>,
        conditions: Conditions,
        head: bool,
    },
    Delete {
        key: String,
    },
    DeleteMany {
        keys: Vec<String>,
    },
    /// A list by pages, followed to its end.
    Pages {
        prefix: String,
        delimiter: Option<&'static str>,
        offset: Option<String>,
        max_keys: usize,
    },
    /// What lies directly below a directory.
    Directory {
        prefix: Option<String>,
    },
    Copy {
        from: String,
        to: String,
        create: bool,
    },
    /// Copies unless there is something, as `object_store` does it by default: by a multipart upload.
    CopyByParts {
        from: String,
        to: String,
    },
    CreateUpload {
        key: String,
    },
    Part {
        upload: u32,
        index: usize,
        body: Body,
    },
    /// Names the parts taken last under these indices; `None` names a part that never was.
    Complete {
        upload: u32,
        parts: Vec<Option<usize>>,
    },
    Abort {
        upload: u32,
    },
    ListParts {
        upload: u32,
        max_parts: u32,
    },
    ListUploads {
        prefix: String,
        delimiter: Option<&'static str>,
        max_uploads: u32,
    },
}

/// Bytes by recipe: few fillings, so that equal contents meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub(crate) filling: u8,
    pub(crate) size: usize,
}

impl Body {
    pub(crate) fn bytes(self) -> Vec<u8> {
        (0..self.size).map(|at| self.filling.wrapping_add(at as u8)).collect()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Overwrite,
    Create,
    /// If the object has the ETag of that step's.
    Update(Tag),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Tag {
    Of(u32),
    Wrong,
    Any,
}

/// A date, relative to when the object was written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Since {
    Before,
    Then,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) if_match: Option<Tag>,
    pub(crate) if_none_match: Option<Tag>,
    pub(crate) if_modified: Option<Since>,
    pub(crate) if_unmodified: Option<Since>,
}

/// Which keys there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Any.
    Free,
    /// None is the directory of another: what a server can keep that makes files of objects.
    Files,
}

const FREE: [&str; 10] =
    ["a", "a/b", "a/b/c", "a/b/d", "a-b", "a0", "b/1", "b/2", "b/sub/x y", "\u{e9}/+&=~"];
const FILES: [&str; 10] =
    ["a", "c/b/c", "c/b/d", "c/e", "c-b", "c0", "b/1", "b/2", "b/sub/x y", "\u{e9}/+&=~"];
const PREFIXES: [&str; 8] = ["", "a", "a/", "b/", "b/s", "c/", "c/b", "nothing"];

/// Uploads by the steps that create them.
#[derive(Default)]
struct Uploads {
    all: Vec<u32>,
    /// Those that may be completed or aborted by now.
    over: Vec<u32>,
}

/// SplitMix64.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Draw(seed)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % n as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// The steps of a case.
pub(crate) fn case(seed: u64, steps: u32, keys: Keys) -> Vec<Step> {
    let mut draw = Draw::new(seed);
    // A case lives on few keys, so that operations meet.
    let all = if keys == Keys::Free { FREE } else { FILES };
    let keys: Vec<&str> = (0..2 + draw.below(5)).map(|_| draw.one(&all)).collect();
    let mut uploads = Uploads::default();
    // Most cases have no large part: it takes as long as a hundred other steps.
    let mut large = usize::from(draw.chance(4)) * 3;
    (1..=steps).map(|id| Step { id, op: one(&mut draw, id, &keys, &mut uploads, &mut large) }).collect()
}

fn one(draw: &mut Draw, id: u32, keys: &[&str], uploads: &mut Uploads, large: &mut usize) -> Op {
    let key = draw.one(keys).to_string();
    match draw.below(100) {
        0..28 => {
            let mode = match draw.below(6) {
                0..3 => Mode::Overwrite,
                3..5 => Mode::Create,
                _ => Mode::Update(tag(draw, id)),
            };
            Op::Put { key, body: small(draw), mode }
        }
        28..47 => Op::Get { key, range: range(draw), conditions: conditions(draw, id), head: false },
        47..56 => Op::Get { key, range: None, conditions: conditions(draw, id), head: true },
        56..62 => Op::Delete { key },
        62..65 => {
            Op::DeleteMany { keys: (0..1 + draw.below(3)).map(|_| draw.one(keys).to_string()).collect() }
        }
        65..75 => Op::Pages {
            prefix: draw.one(&PREFIXES).to_string(),
            delimiter: draw.one(&[None, Some("/"), Some("/"), Some("b")]),
            offset: draw.chance(25).then(|| draw.one(keys).to_string()),
            max_keys: draw.one(&[1, 1, 2, 3, 1000]),
        },
        75..78 => {
            Op::Directory { prefix: draw.one(&[None, Some("a"), Some("b"), Some("c/b")]).map(str::to_string) }
        }
        78..83 => Op::Copy { from: key, to: draw.one(keys).to_string(), create: draw.chance(10) },
        83..86 => {
            let others: Vec<&str> = keys.iter().copied().filter(|other| *other != key).collect();
            match others.is_empty() {
                true => Op::Delete { key },
                false => Op::CopyByParts { from: key, to: draw.one(&others).to_string() },
            }
        }
        _ => multipart(draw, id, key, uploads, large),
    }
}

fn multipart(draw: &mut Draw, id: u32, key: String, uploads: &mut Uploads, large: &mut usize) -> Op {
    if uploads.all.is_empty() || draw.chance(15) {
        uploads.all.push(id);
        return Op::CreateUpload { key };
    }
    // Uploads that are over are named, too.
    let upload = draw.one(&uploads.all);
    match draw.below(20) {
        0..9 => {
            // A server may refuse the part of an upload that is over before it has read it, which looks like a cut.
            let is_large = *large > 0 && !uploads.over.contains(&upload);
            *large -= usize::from(is_large);
            let size = MIN_PART_BYTES - usize::from(draw.chance(25));
            let body = if is_large { Body { size, ..small(draw) } } else { small(draw) };
            Op::Part { upload, index: draw.below(3), body }
        }
        9..13 => {
            let count = 1 + draw.below(3);
            uploads.over.push(upload);
            Op::Complete { upload, parts: (0..count).map(|at| (!draw.chance(10)).then_some(at)).collect() }
        }
        13..15 => {
            uploads.over.push(upload);
            Op::Abort { upload }
        }
        15..18 => Op::ListParts { upload, max_parts: draw.one(&[1, 2, 1000]) },
        _ => Op::ListUploads {
            prefix: draw.one(&PREFIXES).to_string(),
            delimiter: draw.one(&[None, Some("/")]),
            max_uploads: draw.one(&[1, 2, 1000]),
        },
    }
}

fn small(draw: &mut Draw) -> Body {
    Body { filling: draw.below(4) as u8, size: draw.one(&[0, 1, 5, 5, 5, 40]) }
}

fn tag(draw: &mut Draw, id: u32) -> Tag {
    match draw.below(10) {
        0..7 => Tag::Of(1 + draw.below(id as usize) as u32),
        7..9 => Tag::Wrong,
        _ => Tag::Any,
    }
}

fn range(draw: &mut Draw) -> Option<GetRange> {
    let at = |draw: &mut Draw| draw.one(&[0, 1, 4, 5, 6, 39, 40, 50]);
    match draw.below(8) {
        0 | 1 => {
            let start = at(draw);
            Some(GetRange::Bounded(start..start + 1 + at(draw)))
        }
        2 => Some(GetRange::Offset(at(draw))),
        3 => Some(GetRange::Suffix(at(draw))),
        _ => None,
    }
}

fn conditions(draw: &mut Draw, id: u32) -> Conditions {
    let since = |draw: &mut Draw| draw.one(&[Since::Before, Since::Then]);
    let mut conditions = Conditions::default();
    match draw.below(12) {
        0 | 1 => conditions.if_match = Some(tag(draw, id)),
        2 | 3 => conditions.if_none_match = Some(tag(draw, id)),
        4 => conditions.if_modified = Some(since(draw)),
        5 => conditions.if_unmodified = Some(since(draw)),
        6 => {
            conditions.if_match = Some(tag(draw, id));
            conditions.if_unmodified = Some(since(draw));
        }
        7 => {
            conditions.if_none_match = Some(tag(draw, id));
            conditions.if_modified = Some(since(draw));
        }
        _ => {}
    }
    conditions
}
