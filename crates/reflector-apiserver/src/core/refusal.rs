//! Refusals from outside the core: authentication and authorization come before it, and their answers look like its own.

use bytes::Bytes;
use http::{HeaderMap, Response, Uri};

use super::{
    accept::Wishes,
    exchange::Reply,
    query::Query,
    status::{Details, Status},
};

/// A refusal from outside the core, as a whole answer: in the form that the client wants errors in.
pub(crate) fn refusal(
    headers: &HeaderMap,
    uri: &Uri,
    (code, reason): (u16, &'static str),
    message: String,
    names: Option<(&str, &str, &str)>,
) -> Response<Bytes> {
    let mut status = Status::new(code, reason, message);
    status.details = names.map(|(name, group, kind)| Details {
        name: name.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        ..Details::default()
    });
    let wishes = Wishes::new(headers, &Query::parse(uri.query().unwrap_or_default()));
    Reply::refusal(&status, &wishes).into_response()
}
