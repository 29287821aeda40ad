//! What one side answered, in a form in which both can be compared.

use fake_etcd::api::*;
use fake_etcd::error::{Code, EtcdError};

/// A response, or gRPC's code and the text.
pub(crate) type Outcome = Result<Response, (i32, String)>;

pub(crate) fn code(code: Code) -> i32 {
    match code {
        Code::Cancelled => 1,
        Code::InvalidArgument => 3,
        Code::NotFound => 5,
        Code::ResourceExhausted => 8,
        Code::FailedPrecondition => 9,
        Code::OutOfRange => 11,
    }
}

/// The outcome of the fake's client.
pub(crate) fn of_fake(result: Result<Response, fake_etcd::Error>) -> Outcome {
    result.map_err(|error| match error {
        fake_etcd::Error::Etcd { code: grpc, message } => (code(grpc), message.into_owned()),
        other => (-1, other.to_string()),
    })
}

/// Why two outcomes that differ are both right: etcd 3.4 looks at all puts of a transaction before it looks at any range,
/// later versions go in order. It matters only for a transaction with several faults.
pub(crate) fn explained(version: &str, request: &Request, real: &Outcome, fake: &Outcome) -> bool {
    let of_a_put = [EtcdError::KEY_NOT_FOUND, EtcdError::LEASE_NOT_FOUND];
    let of_a_range = [EtcdError::FUTURE_REVISION, EtcdError::COMPACTED];
    let is = |outcome: &Outcome, errors: &[EtcdError]| {
        errors.iter().any(|error| *outcome == Err((code(error.code), error.message.to_string())))
    };
    version.starts_with("3.4.")
        && matches!(request, Request::Txn(_))
        && is(real, &of_a_put)
        && is(fake, &of_a_range)
}

/// Whether the two say the same. The whole seconds left of a lease may differ by one, as the two were asked one after
/// the other; etcd lists a lease's keys in the order of a Go map; and its Rust client drops the header of an answer
/// that says a lease is gone.
pub(crate) fn same(real: &Outcome, fake: &Outcome) -> bool {
    match (real, fake) {
        (Ok(Response::LeaseTimeToLive(real)), Ok(Response::LeaseTimeToLive(fake))) => {
            let (mut of_real, mut of_fake) = (real.clone(), fake.clone());
            of_real.keys.sort();
            of_fake.keys.sort();
            (of_real.ttl_s, of_fake.ttl_s) = (0, 0);
            of_real == of_fake && (real.ttl_s - fake.ttl_s).abs() <= 1 && (real.ttl_s < 0) == (fake.ttl_s < 0)
        }
        (
            Ok(Response::LeaseKeepAlive { id, ttl_s: 0, .. }),
            Ok(Response::LeaseKeepAlive { id: fake_id, ttl_s: 0, .. }),
        ) => id == fake_id,
        _ => real == fake,
    }
}
