//! Requests on their way: answers at hand, lists and watches that stream, and reads that wait for the cache.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use reflector_protobuf::Kind;
use serde_json::Value;

use super::{
    Core, Step,
    accept::{Format, Media, Transform, Wishes},
    json::{self, Indenter},
    list::{ListStream, Plan, Scope},
    protobuf,
    query::ListOptions,
    registry::Resource,
    route::Target,
    status::{Body, Outcome, Status},
    view::View,
    watch::{Start, Timing, Watch},
};

/// How long a read waits for the cache to reach the version asked for.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// One request being answered.
#[derive(Debug)]
pub(super) enum Exchange {
    Reply(Reply),
    List(Box<ListStream>),
    Watch(Box<Watch>),
    Waiting(Box<Waiting>),
}

/// A whole answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) head: Option<Response<()>>,
    pub(super) body: Bytes,
}

/// A read before its answer.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) target: Target,
    pub(super) wishes: Wishes,
    pub(super) include: Option<String>,
    pub(super) media: Media,
    pub(super) kind: ReadKind,
}

#[derive(Debug, Clone)]
pub(super) enum ReadKind {
    Get { name: String, version: u64 },
    List { options: Box<ListOptions>, plan: Plan },
    Watch { options: Box<ListOptions>, start: Start },
}

/// A read whose version the cache has not reached.
#[derive(Debug)]
pub(super) struct Waiting {
    read: Read,
    gives_up: Duration,
    /// The deadline of the request; for a watch the end of the stream.
    deadline: Duration,
}

impl Read {
    fn needs(&self) -> u64 {
        match &self.kind {
            ReadKind::Get { version, .. } => *version,
            ReadKind::List { plan, .. } => plan.needs(),
            ReadKind::Watch { start, .. } => start.needs(),
        }
    }
}

/// A head with the headers that every answer has.
pub(super) fn head(code: u16, content_type: &'static str, resource: Option<&Resource>) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = head.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(warning) = resource.and_then(|r| r.warning) {
        add_warning(&mut head, warning);
    }
    head
}

/// Appends a `Warning` header.
pub(super) fn add_warning(head: &mut Response<()>, text: &str) {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
        head.headers_mut().append(header::WARNING, value);
    }
}

const TEXT: &str = "text/plain; charset=utf-8";

/// Finishes a JSON document: indented for people, with a newline for programs.
pub(super) fn finish(mut out: Vec<u8>, pretty: bool) -> Bytes {
    if pretty {
        let mut indented = Vec::with_capacity(out.len() * 2);
        Indenter::default().push(&out, &mut indented);
        return indented.into();
    }
    out.push(b'\n');
    out.into()
}

/// A document of a built-in kind that is no resource.
fn document(value: &Value, media: Media) -> Bytes {
    match media.format {
        Format::Json => finish(json::to_vec(value), media.pretty),
        Format::Protobuf => {
            let kind = Kind::find(json::text_at(value, &["apiVersion"]), json::text_at(value, &["kind"]));
            kind.map(|kind| protobuf::document(kind, &json::to_vec(value))).unwrap_or_default().into()
        }
    }
}

impl Reply {
    /// An answer with a document of a built-in kind that is no resource, such as `Status`.
    pub(super) fn value(code: u16, value: &Value, media: Media) -> Self {
        Self { head: Some(head(code, media.format.content_type(false), None)), body: document(value, media) }
    }

    /// A refusal in the form that its kind has.
    pub(super) fn refusal(status: &Status, wishes: &Wishes) -> Self {
        let media = wishes.for_error();
        let (mut head, body) = match status.body {
            Body::Status => (
                head(status.code, media.format.content_type(false), None),
                document(&status.to_json(), media),
            ),
            Body::Deadline => (head(status.code, TEXT, None), finish(json::to_vec(&status.to_json()), false)),
            Body::Text => {
                let mut head = head(status.code, TEXT, None);
                head.headers_mut()
                    .insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
                (head, Bytes::from(status.message.clone()))
            }
        };
        if let Some(seconds) = status.retry_after {
            head.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        Self { head: Some(head), body }
    }

    /// Head and body at once.
    #[cfg(feature = "http")]
    pub(super) fn into_response(self) -> Response<Bytes> {
        self.head.unwrap_or_default().map(|()| self.body)
    }

    fn poll(&mut self) -> Step {
        match self.head.take() {
            Some(head) => Step::Head(head),
            None if self.body.is_empty() => Step::End,
            None => Step::Data(std::mem::take(&mut self.body)),
        }
    }
}

impl Core {
    pub(super) fn step(&mut self, exchange: &mut Exchange) -> Step {
        if let Exchange::Waiting(waiting) = exchange {
            let Waiting { read, gives_up, deadline } = &**waiting;
            match self.try_again(read, *gives_up, *deadline) {
                Some(ready) => *exchange = ready,
                None => {
                    return Step::Wait { until: Some((*gives_up).min(*deadline)) };
                }
            }
        }
        match exchange {
            Exchange::Reply(reply) => reply.poll(),
            Exchange::List(list) => list.poll(),
            Exchange::Watch(watch) => watch.poll(self.now, &self.etcd, &mut self.server, &mut self.events),
            Exchange::Waiting(_) => Step::Wait { until: None },
        }
    }

    fn try_again(&mut self, read: &Read, gives_up: Duration, deadline: Duration) -> Option<Exchange> {
        let storage = &read.target.resource.storage;
        let current = self.server.cache(&self.etcd, storage).revision();
        if current >= read.needs() {
            return Some(self.answer(read, deadline));
        }
        let is_watch = matches!(read.kind, ReadKind::Watch { .. });
        if self.now >= gives_up || (is_watch && self.now >= deadline) {
            return Some(self.too_early(read, current, 1, deadline));
        }
        let over = || Exchange::Reply(Reply::refusal(&Status::deadline(), &read.wishes));
        (self.now >= deadline).then(over)
    }

    /// Starts a read, which waits if the cache has not reached its version.
    pub(super) fn read(&mut self, read: Read, timeout: Duration) -> Exchange {
        let resource = read.target.resource.clone();
        let current = self.server.cache(&self.etcd, &resource.storage).revision();
        let deadline = self.now.saturating_add(self.watch_length(&read).unwrap_or(timeout));
        if current >= read.needs() {
            return self.answer(&read, deadline);
        }
        if !resource.cached {
            // Without a cache there is nothing to wait for.
            let is_watch = matches!(read.kind, ReadKind::Watch { .. });
            let retry_after = if is_watch { self.random.u64(1..=3) } else { 0 };
            return self.too_early(&read, current, retry_after, deadline);
        }
        Exchange::Waiting(Box::new(Waiting { read, gives_up: self.now + FRESHNESS_WAIT, deadline }))
    }

    /// How long a watch lives: as asked for, or a random time beyond `--min-request-timeout`.
    fn watch_length(&mut self, read: &Read) -> Option<Duration> {
        let ReadKind::Watch { options, .. } = &read.kind else {
            return None;
        };
        Some(match u64::try_from(options.timeout_seconds) {
            Ok(0) => Duration::from_millis(self.random.u64(1_800_000..3_600_000)),
            // Beyond a century nobody can tell.
            Ok(seconds) => Duration::from_secs(seconds.min(u64::from(u32::MAX))),
            Err(_) => Duration::ZERO,
        })
    }

    /// The version asked for did not come: 504, in a watch as the only event.
    fn too_early(&mut self, read: &Read, current: u64, retry_after: u64, deadline: Duration) -> Exchange {
        let error = Status::too_large(read.needs(), current, retry_after);
        match &read.kind {
            ReadKind::Watch { .. } => match self.start_watch(read, deadline) {
                Ok(watch) => Exchange::Watch(Box::new(watch.over(Some(error)))),
                Err(status) => Exchange::Reply(Reply::refusal(&status, &read.wishes)),
            },
            _ => Exchange::Reply(Reply::refusal(&error, &read.wishes)),
        }
    }

    fn answer(&mut self, read: &Read, deadline: Duration) -> Exchange {
        let answer = match &read.kind {
            ReadKind::Get { name, .. } => self.get(read, name).map(Exchange::Reply),
            ReadKind::List { options, plan } => {
                self.start_list(read, options, plan).map(|list| Exchange::List(Box::new(list)))
            }
            ReadKind::Watch { .. } => {
                self.start_watch(read, deadline).map(|watch| Exchange::Watch(Box::new(watch)))
            }
        };
        answer.unwrap_or_else(|status| Exchange::Reply(Reply::refusal(&status, &read.wishes)))
    }

    fn view(&self, read: &Read, list: bool) -> Outcome<View> {
        View::new(&read.target.resource, read.media, read.include.as_deref(), list, self.wall())
    }

    fn get(&mut self, read: &Read, name: &str) -> Outcome<Reply> {
        let resource = &read.target.resource;
        let key = super::object::storage_key(&read.target.namespace, name);
        let object =
            self.etcd.get(&resource.storage, &key).ok_or_else(|| Status::not_found(resource, name))?;
        if read.target.subresource.as_deref() == Some("scale") {
            return super::scale::reply(resource, object, read.media);
        }
        let view = self.view(read, false)?;
        let mut out = Vec::with_capacity(object.body_len() + 64);
        view.write_object(&mut out, object, None, true);
        let head = head(200, view.format.content_type(false), Some(resource));
        Ok(Reply { head: Some(head), body: view.finish(out) })
    }

    fn start_list(&mut self, read: &Read, options: &ListOptions, plan: &Plan) -> Outcome<ListStream> {
        let view = self.view(read, true)?;
        let scope = Scope::new(&read.target.resource, &read.target.namespace, options);
        let head = head(200, view.format.content_type(false), Some(&read.target.resource));
        ListStream::new(&mut self.etcd, &mut self.server, scope, plan, view, head)
    }

    fn start_watch(&mut self, read: &Read, deadline: Duration) -> Outcome<Watch> {
        let ReadKind::Watch { options, start } = &read.kind else {
            return Err(Status::unexpected("not a watch"));
        };
        // A list of metadata makes no sense in a watch: the real server notices only when the stream has begun.
        let futile = matches!(read.media.transform, Transform::MetadataList(_));
        let media = if futile { Media { transform: Transform::None, ..read.media } } else { read.media };
        let mut view = View::new(&read.target.resource, media, read.include.as_deref(), false, self.wall())?;
        view.pretty = false;
        let jitter = Duration::from_millis(self.random.u64(0..=250));
        let timing = Timing { now: self.now, deadline, bookmarks: options.bookmarks, jitter };
        let scope = Scope::new(&read.target.resource, &read.target.namespace, options);
        let watch = Watch::new(&self.etcd, &mut self.server, scope, *start, view, timing, &self.options)
            .with_head(head(200, media.format.content_type(true), Some(&read.target.resource)));
        Ok(if futile { watch.over(None) } else { watch })
    }
}
