//! What one side answered, in a form in which both can be compared.

use fake_etcd::api::*;
use fake_etcd::error::Code;

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
