//! From a request to its response.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use jiff::fmt::rfc2822;

use super::{
    body::{Body, Broken, Open, Stream},
    connection::Fate,
    engine::Shared,
    log::LoggedRequest,
};
use crate::{
    discovery,
    faults::{Exchange, Step, answer::Status},
    request::{RequestInfo, Verb},
};

/// apiserver's `MaxRequestBodyBytes`.
const LONGEST_REQUEST: usize = 3 << 20;
/// Go's `net/http` gives the length of bodies that fit its first buffer.
const LONGEST_WITH_LENGTH: usize = 2048;
/// apiserver's `defaultGzipThresholdBytes`: longer bodies are compressed.
const LONGEST_UNCOMPRESSED: usize = 128 * 1024;

/// Who answers a request.
enum Answer {
    /// The core, by and by.
    Opened(Exchange),
    /// The front itself.
    Known(Box<Response<Bytes>>),
}

/// Answers one request.
pub(super) async fn answer(
    shared: Arc<Shared>,
    fate: Arc<Fate>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    let info = RequestInfo::parse(&parts.method, &parts.uri);
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let number = shared.with(|engine, now| {
        let method = parts.method.clone();
        engine.note(LoggedRequest { at: now, method, path, info: info.clone(), status: None })
    });
    let body = match Limited::new(body, LONGEST_REQUEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Ok(dress(&shared, number, too_large().map(Body::Full)));
        }
        // The client went away in the middle.
        Err(_) => return Err(Broken),
    };
    let answered = shared.with(|engine, now| {
        let refused = engine.auth.refuse(&parts.headers, &parts.uri, info.as_ref());
        let registry = engine.layer.core().registry();
        let known = || discovery::answer(registry, &parts.method, &parts.uri, &parts.headers);
        if let Some(response) = refused.or_else(known) {
            return Answer::Known(Box::new(response));
        }
        let request = Request::from_parts(parts.clone(), body);
        Answer::Opened(engine.layer.open(now, request))
    });
    let response = match answered {
        Answer::Opened(exchange) => {
            let open = Open::new(Arc::clone(&shared), exchange, fate);
            respond(open, &parts, info.as_ref()).await?
        }
        Answer::Known(response) => response.map(Body::Full),
    };
    Ok(dress(&shared, number, response))
}

/// Pulls the head, and as much of the body as it takes to choose between a length, chunks and gzip.
async fn respond(
    mut open: Open,
    parts: &Parts,
    info: Option<&RequestInfo>,
) -> Result<Response<Body>, Broken> {
    let mut head = loop {
        match open.poll() {
            Step::Head(head) => break head,
            Step::Wait { until } => open.wait(until).await,
            Step::Cut(cut) => match open.cut(cut) {
                Some(broken) => return Err(broken),
                None => std::future::pending().await,
            },
            // An answer has a head; without one there is nothing to say.
            Step::Data(_) | Step::End => return Err(Broken),
        }
    };
    let watch = info.is_some_and(|info| info.verb == Verb::Watch);
    if watch && head.status() == StatusCode::OK {
        // The head goes out before the first event.
        return Ok(head.map(|()| Body::Stream(Box::new(Stream::new(open, Bytes::new(), None, false)))));
    }
    let compressible = parts.method == Method::GET
        && head.status() == StatusCode::OK
        && !head.headers().contains_key(header::CONTENT_ENCODING)
        && accepts_gzip(&parts.headers);
    let enough = if compressible { LONGEST_UNCOMPRESSED } else { LONGEST_WITH_LENGTH };
    let mut prefix = BytesMut::new();
    let next = loop {
        if prefix.len() > enough {
            break None;
        }
        match open.poll() {
            // A long list in protobuf is measured first: others shall have their turn meanwhile.
            Step::Data(bytes) if bytes.is_empty() => tokio::task::yield_now().await,
            Step::Data(bytes) => prefix.extend_from_slice(&bytes),
            Step::Head(_) => {}
            Step::End => break Some(Step::End),
            // Whoever waits must see what there is so far.
            other => break Some(other),
        }
    };
    let compress = compressible && prefix.len() > LONGEST_UNCOMPRESSED;
    if compress {
        let headers = head.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if matches!(next, Some(Step::End)) && prefix.len() <= LONGEST_WITH_LENGTH {
        return Ok(head.map(|()| Body::Full(prefix.freeze())));
    }
    Ok(head.map(|()| Body::Stream(Box::new(Stream::new(open, prefix.freeze(), next, compress)))))
}

/// The token rule of apiserver: parameters such as `gzip;q=0.5` disable compression.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.unwrap_or_default().split(',').any(|token| token.trim() == "gzip")
}

fn too_large() -> Response<Bytes> {
    let message = "Request entity too large: limit is 3145728";
    let mut response = Status::new(413, "RequestEntityTooLarge", message).response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The headers of every answer.
fn dress(shared: &Shared, number: u64, mut response: Response<Body>) -> Response<Body> {
    let status = response.status();
    let audit_id = shared.with(|engine, _| {
        engine.note_status(number, status);
        uuid(&mut engine.rng)
    });
    let headers = response.headers_mut();
    let mut set = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(header::HeaderName::from_static("audit-id"), &audit_id);
    set(header::CACHE_CONTROL, "no-cache, private");
    let date = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&shared.timestamp());
    if let Ok(date) = date {
        set(header::DATE, &date);
    }
    response
}

/// A random UUID (RFC 9562, version 4).
fn uuid(rng: &mut fastrand::Rng) -> String {
    let bits = (rng.u128(..) & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_a_plain_token() {
        let accepts = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts_gzip(&headers)
        };
        assert!(accepts("gzip") && accepts("br, gzip"));
        assert!(!accepts("gzip;q=0.5") && !accepts("identity") && !accepts("xgzip"));
    }

    #[test]
    fn audit_ids_are_uuids_of_version_4() {
        let id = uuid(&mut fastrand::Rng::with_seed(1));
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"));
    }
}
