//! The little of S3's REST API for which `object_store`'s client has no call: creating a bucket, listing parts and
//! uploads. HTTP/1.1, one request a connection, signed in its URL.
#![expect(clippy::disallowed_types, reason = "meets a real server")]

use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::signer::{Method, SignedUrlOptions, Signer};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a signed URL is valid.
const VALID: Duration = Duration::from_secs(600);

/// Status and body of the answer to a request about a path of `store`'s bucket, or with an empty one about the bucket.
pub(crate) async fn request(
    store: &AmazonS3,
    method: Method,
    path: &Path,
    query: &[(&str, &str)],
) -> io::Result<(u16, String)> {
    let options = SignedUrlOptions::new().with_query(query.iter().copied());
    let signed = store.signed_url_opts(method.clone(), path, VALID, &options).await;
    let url = signed.map_err(io::Error::other)?.to_string();
    let malformed = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_string());
    let (address, target) =
        url.strip_prefix("http://").and_then(|url| url.split_once('/')).ok_or_else(|| malformed(&url))?;
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "{method} /{target} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| malformed(&answer))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| malformed(&answer))?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { dechunked(body) } else { Some(body.to_string()) };
    Ok((status, body.ok_or_else(|| malformed(&answer))?))
}

/// The body that chunks make together.
fn dechunked(mut rest: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.push_str(after.get(..size)?);
        rest = after.get(size + 2..)?;
    }
}

/// The texts of every element with this name, entities resolved.
pub(crate) fn elements(xml: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut found = Vec::new();
    let mut rest = xml;
    while let Some((_, after)) = rest.split_once(&open) {
        let Some((text, after)) = after.split_once(&close) else { break };
        found.push(unescaped(text));
        rest = after;
    }
    found
}

fn unescaped(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text.to_string(), |text, (entity, plain)| text.replace(entity, plain))
}
