//! S3's refusals, by the names of its error code list.

use serde::{Deserialize, Serialize};

/// An S3 error code. Its text is the code itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum S3Error {
    /// There is no such object.
    #[error("NoSuchKey")]
    NoSuchKey,
    /// A condition of the request does not hold.
    #[error("PreconditionFailed")]
    PreconditionFailed,
    /// The object is the one the caller has already.
    #[error("NotModified")]
    NotModified,
    /// The range lies outside the object.
    #[error("InvalidRange")]
    InvalidRange,
    /// An argument is malformed, such as a continuation token nobody gave out.
    #[error("InvalidArgument")]
    InvalidArgument,
    /// A copy of an object onto itself.
    #[error("InvalidRequest")]
    InvalidRequest,
    /// More keys in one bulk deletion than 1,000, or none.
    #[error("MalformedXML")]
    MalformedXml,
    /// A key above 1,024 bytes.
    #[error("KeyTooLongError")]
    KeyTooLong,
    /// There is no such multipart upload, or no longer.
    #[error("NoSuchUpload")]
    NoSuchUpload,
    /// A part named on completion was not uploaded, or with another ETag.
    #[error("InvalidPart")]
    InvalidPart,
    /// Parts are not named in ascending order on completion.
    #[error("InvalidPartOrder")]
    InvalidPartOrder,
    /// A part other than the last is below 5 MiB.
    #[error("EntityTooSmall")]
    EntityTooSmall,
    /// Come back later. Nothing was done.
    #[error("SlowDown")]
    SlowDown,
    /// Something went wrong; the request may have been done all the same.
    #[error("InternalError")]
    InternalError,
}

impl S3Error {
    /// The HTTP status it comes with.
    pub fn status(self) -> u16 {
        match self {
            S3Error::NotModified => 304,
            S3Error::NoSuchKey | S3Error::NoSuchUpload => 404,
            S3Error::PreconditionFailed => 412,
            S3Error::InvalidRange => 416,
            S3Error::InternalError => 500,
            S3Error::SlowDown => 503,
            _ => 400,
        }
    }
}
