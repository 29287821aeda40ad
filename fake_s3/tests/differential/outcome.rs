//! What an operation came to, in words that both stores have.

use crate::raw;
use fake_s3::client::Failure;
use object_store::Error;

/// An ETag without its quotes. Equal here when it speaks of as many parts: stores have different digests.
#[derive(Clone, Debug, Eq)]
pub(crate) struct ETag(pub(crate) String);

impl PartialEq for ETag {
    fn eq(&self, other: &Self) -> bool {
        let parts = |tag: &Self| tag.0.split_once('-').map(|(_, parts)| parts.to_string());
        parts(self) == parts(other)
    }
}

impl ETag {
    pub(crate) fn new(text: Option<String>) -> Self {
        ETag(text.unwrap_or_default().trim_matches('"').to_string())
    }
}

/// Keys and the steps that created the uploads, and common prefixes.
pub(crate) type UploadsPage = (Vec<(String, u32)>, Vec<String>);

/// What an operation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Copied(Vec<u8>),
    Written(ETag),
    Object {
        size: u64,
        start: u64,
        body: Vec<u8>,
        tag: ETag,
        filling: Option<String>,
    },
    Deleted(Vec<String>),
    Pages(Vec<Page>),
    Created,
    Part(ETag),
    Parts(Vec<Vec<(u32, u64, ETag)>>),
    Uploads(Vec<UploadsPage>),
    Failed {
        variant: &'static str,
        code: Option<String>,
    },
    /// It refers to an upload or a part that could not be made.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) objects: Vec<(String, u64, ETag)>,
    pub(crate) prefixes: Vec<String>,
}

impl Outcome {
    /// The ETags in it, in order.
    pub(crate) fn tags(&self) -> Vec<&ETag> {
        match self {
            Outcome::Written(tag) | Outcome::Part(tag) | Outcome::Object { tag, .. } => vec![tag],
            Outcome::Pages(pages) => {
                pages.iter().flat_map(|page| page.objects.iter().map(|one| &one.2)).collect()
            }
            Outcome::Parts(pages) => pages.iter().flatten().map(|part| &part.2).collect(),
            _ => Vec::new(),
        }
    }
}

pub(crate) fn refused(failure: &Failure) -> Outcome {
    match failure {
        Failure::Refused(error) => {
            let variant = if error.status() == 404 { "NotFound" } else { "Generic" };
            Outcome::Failed { variant, code: Some(error.to_string()) }
        }
        other => Outcome::Failed { variant: "Client", code: Some(other.to_string()) },
    }
}

pub(crate) fn failed(error: &Error) -> Outcome {
    let variant = match error {
        Error::NotFound { .. } => "NotFound",
        Error::AlreadyExists { .. } => "AlreadyExists",
        Error::Precondition { .. } => "Precondition",
        Error::NotModified { .. } => "NotModified",
        Error::PermissionDenied { .. } => "PermissionDenied",
        Error::NotImplemented { .. } | Error::NotSupported { .. } => "NotImplemented",
        _ => "Generic",
    };
    let mut code = None;
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<Failure>() {
            Some(Failure::Refused(refused)) => code = Some(refused.to_string()),
            Some(other) => code = Some(other.to_string()),
            None => {
                let text = error.to_string();
                code = raw::elements(&text, "Code").pop().or(code);
            }
        }
        cause = error.source();
    }
    Outcome::Failed { variant, code }
}
