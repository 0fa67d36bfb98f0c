//! LIST: which state a request reads (KEP-2340, KEP-4988 and the API docs on resource versions), and the answer that
//! is written piece by piece from a snapshot.

use std::{ops::Bound, sync::Arc, vec};

use bytes::Bytes;
use http::Response;
use serde_json::json;

use super::{
    Step,
    accept::Format,
    etcd::{Etcd, Objects},
    fields::FieldSelector,
    json::{self, Indenter},
    object::Object,
    protobuf,
    query::{ListOptions, parse_version},
    registry::Resource,
    selector::LabelSelector,
    server::Server,
    status::{Outcome, Status},
    token::Token,
    view::View,
};

/// About how much one piece of an answer holds.
const CHUNK: usize = 64 * 1024;

/// Which state a list reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    /// At least this revision: 0 is whatever the cache has, `None` the most recent.
    AtLeast(Option<u64>),
    /// The state at exactly this revision.
    Exact(u64),
    /// The state at the revision of a token, from its key on.
    Page(u64, String),
    /// The most recent state, from the key of a token on.
    Rest(String),
}

/// A list to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) read: Read,
    /// 0 is no limit.
    pub(super) limit: usize,
}

impl Plan {
    /// Decides from validated options. A list with a limit at version N means exactly N, a rule from before
    /// resourceVersionMatch; at version "0" the watch cache knows no limit.
    pub(super) fn new(options: &ListOptions, cached: bool) -> Outcome<Self> {
        let limit = options.limit;
        if !options.continue_token.is_empty() {
            let token = Token::decode(&options.continue_token).map_err(|e| {
                Status::bad_request(format!("invalid continue token: continue key is not valid: {e}"))
            })?;
            if !matches!(options.version.as_str(), "" | "0") {
                let message = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(message));
            }
            let read = match u64::try_from(token.revision) {
                Ok(revision) => Read::Page(revision, token.start),
                Err(_) => Read::Rest(token.start),
            };
            // Also then version "0" takes the limit away.
            let limit = if options.version == "0" && cached { 0 } else { limit };
            return Ok(Self { read, limit });
        }
        if options.version.is_empty() {
            return Ok(Self { read: Read::AtLeast(None), limit });
        }
        let version = parse_version(&options.version)
            .map_err(|e| Status::bad_request(format!("invalid resource version: {e}")))?;
        let exact = match options.version_match.as_str() {
            "Exact" => true,
            "NotOlderThan" => false,
            _ => version > 0 && limit > 0,
        };
        if exact {
            return Ok(Self { read: Read::Exact(version), limit });
        }
        let limit = if version == 0 && cached { 0 } else { limit };
        Ok(Self { read: Read::AtLeast(Some(version)), limit })
    }

    /// The revision that the cache must have reached.
    pub(super) fn needs(&self) -> u64 {
        match self.read {
            Read::AtLeast(version) => version.unwrap_or(0),
            Read::Exact(version) | Read::Page(version, _) => version,
            Read::Rest(_) => 0,
        }
    }
}

/// What a list or watch covers: a namespace or all, and the selectors.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) resource: Arc<Resource>,
    /// What the keys begin with.
    pub(super) prefix: String,
    pub(super) labels: LabelSelector,
    pub(super) fields: FieldSelector,
}

impl Scope {
    /// A field selector for one namespace narrows a list over all of them.
    pub(super) fn new(resource: &Arc<Resource>, namespace: &str, options: &ListOptions) -> Self {
        let selected = options.fields.exact("metadata.namespace").unwrap_or_default();
        let namespace = if namespace.is_empty() { selected } else { namespace };
        let prefix = if namespace.is_empty() || !resource.namespaced {
            String::new()
        } else {
            format!("{namespace}/")
        };
        Self {
            resource: resource.clone(),
            prefix,
            labels: options.labels.clone(),
            fields: options.fields.clone(),
        }
    }

    pub(super) fn covers(&self, object: &Object) -> bool {
        object.key().starts_with(&self.prefix)
            && self.labels.matches(|key| object.label(key))
            && self.fields.matches(&self.resource, object)
    }

    fn selects(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// The key, if only one object can match: such a list is a read of that key.
    fn single(&self) -> Option<String> {
        let name = self.fields.exact("metadata.name").filter(|name| !name.is_empty())?;
        (!self.prefix.is_empty() || !self.resource.namespaced).then(|| format!("{}{name}", self.prefix))
    }
}

/// The objects of a snapshot from a key on.
#[derive(Debug, Clone)]
pub(super) struct Scan {
    objects: Objects,
    scope: Scope,
    /// All keys up to here are done.
    from: Bound<Arc<str>>,
}

impl Scan {
    pub(super) fn new(objects: Objects, scope: Scope, start: &str) -> Self {
        let from = Bound::Included(format!("{}{start}", scope.prefix).into());
        Self { objects, scope, from }
    }

    /// The objects ahead, matching or not.
    fn ahead(&self) -> impl Iterator<Item = &Arc<Object>> {
        let from = match &self.from {
            Bound::Included(key) => Bound::Included(&**key),
            Bound::Excluded(key) => Bound::Excluded(&**key),
            Bound::Unbounded => Bound::Unbounded,
        };
        let prefix = &self.scope.prefix;
        self.objects
            .range::<_, str>((from, Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix.as_str()))
            .map(|(_, object)| object)
    }

    /// Takes matching objects until `enough` says so.
    pub(super) fn take(&mut self, mut enough: impl FnMut(&Arc<Object>) -> bool) {
        let mut last = None;
        for object in self.ahead() {
            last = Some(object.key().clone());
            if self.scope.covers(object) && enough(object) {
                break;
            }
        }
        if let Some(key) = last {
            self.from = Bound::Excluded(key);
        }
    }

    /// The next matching object.
    pub(super) fn next(&mut self) -> Option<Arc<Object>> {
        let mut found = None;
        self.take(|object| {
            found = Some(object.clone());
            true
        });
        found
    }
}

/// A list whose state is at hand.
struct Snapshot {
    objects: Objects,
    revision: u64,
    start: String,
    /// Read from the watch cache, whose tokens begin with a slash.
    cached: bool,
}

fn snapshot(etcd: &mut Etcd, server: &mut Server, scope: &Scope, plan: &Plan) -> Outcome<Snapshot> {
    let Resource { storage, cached, .. } = &*scope.resource;
    let cache = server.cache(etcd, storage);
    let (revision, start) = match &plan.read {
        Read::AtLeast(_) => (None, String::new()),
        Read::Rest(start) => (None, start.clone()),
        Read::Exact(revision) => (Some(*revision), String::new()),
        Read::Page(revision, start) => (Some(*revision), start.clone()),
    };
    let Some(revision) = revision else {
        let (objects, revision) = (cache.objects().clone(), cache.revision());
        return Ok(Snapshot { objects, revision, start, cached: *cached });
    };
    // What the cache has no snapshot of, and exact reads of one key, come from etcd while it has them.
    let from_cache = *cached && revision >= cache.snapshots_from() && scope.single().is_none();
    let expired = |start: &str| match plan.read {
        Read::Page(..) => {
            Status::expired_continue(Token { revision: -1, start: start.to_owned() }.encode(false))
        }
        _ => Status::expired_list(),
    };
    if !from_cache && revision < etcd.compacted() {
        return Err(expired(&start));
    }
    let objects = etcd.state_at(storage, revision).map_err(|_| expired(&start))?;
    Ok(Snapshot { objects, revision, start, cached: from_cache })
}

/// A list being answered.
#[derive(Debug)]
pub(super) struct ListStream {
    head: Option<Response<()>>,
    view: View,
    metadata: json::Object,
    source: Source,
    indenter: Option<Indenter>,
    stage: Stage,
    /// How long the items are in protobuf, as far as they have been measured, and what is left to be measured.
    measured: u64,
    measuring: Option<Source>,
}

#[derive(Debug, Clone)]
enum Source {
    /// A page, chosen beforehand because its token stands before its items.
    Page(vec::IntoIter<Arc<Object>>),
    /// Everything, found as it is written.
    Scan(Box<Scan>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Start,
    Items,
    Done,
}

impl ListStream {
    /// Takes the snapshot; the cache must have reached what the plan needs.
    pub(super) fn new(
        etcd: &mut Etcd,
        server: &mut Server,
        scope: Scope,
        plan: &Plan,
        view: View,
        head: Response<()>,
    ) -> Outcome<Self> {
        let snapshot = snapshot(etcd, server, &scope, plan)?;
        let mut metadata = json::Object::new();
        // What is not stored has no version.
        if view.resource.can("watch") {
            metadata.insert("resourceVersion".into(), json!(snapshot.revision.to_string()));
        }
        let (single, selects) = (scope.single().is_some(), scope.selects());
        let prefix = scope.prefix.clone();
        let page_start = |start: &str| {
            (view.resource.storage.clone(), snapshot.revision, prefix.clone(), start.to_owned())
        };
        // How much there is from the start of this page on, where that is known without counting.
        let here = match snapshot.start.as_str() {
            "" if prefix.is_empty() => Some(snapshot.objects.len()),
            start => server.remembered_page(&page_start(start)),
        };
        let mut scan = Box::new(Scan::new(snapshot.objects, scope, &snapshot.start));
        let source = if plan.limit == 0 || single {
            Source::Scan(scan)
        } else {
            let mut page = Vec::new();
            scan.take(|object| {
                page.push(object.clone());
                page.len() == plan.limit
            });
            if let Some(last) = page.last().filter(|_| page.len() == plan.limit)
                && scan.ahead().next().is_some()
            {
                let revision = i64::try_from(snapshot.revision).unwrap_or(i64::MAX);
                let start = format!("{}\0", &last.key()[prefix.len()..]);
                if !selects {
                    let remaining =
                        here.map_or_else(|| scan.ahead().count(), |here| here.saturating_sub(page.len()));
                    server.remember_page(page_start(&start), remaining);
                    metadata.insert("remainingItemCount".into(), json!(remaining));
                }
                let token = Token { revision, start }.encode(snapshot.cached);
                metadata.insert("continue".into(), json!(token));
            }
            Source::Page(page.into_iter())
        };
        let indenter = view.pretty.then(Indenter::default);
        let measuring = (view.format == Format::Protobuf).then(|| source.clone());
        Ok(Self {
            head: Some(head),
            view,
            metadata,
            source,
            indenter,
            stage: Stage::Start,
            measured: 0,
            measuring,
        })
    }

    pub(super) fn poll(&mut self) -> Step {
        if let Some(head) = self.head.take() {
            return Step::Head(head);
        }
        if self.stage == Stage::Done {
            return Step::End;
        }
        if self.is_measuring() {
            return Step::Data(Bytes::new());
        }
        let mut out = Vec::with_capacity(CHUNK + CHUNK / 4);
        match self.view.format {
            Format::Json => self.fill(&mut out),
            Format::Protobuf => self.fill_messages(&mut out),
        }
        if let Some(indenter) = &mut self.indenter {
            let mut indented = Vec::with_capacity(out.len() * 2);
            indenter.push(&out, &mut indented);
            out = indented;
        }
        Step::Data(Bytes::from(out))
    }

    fn fill(&mut self, out: &mut Vec<u8>) {
        let Self { view, source, stage, metadata, .. } = self;
        let mut first = *stage == Stage::Start;
        if first {
            view.open_list(out, metadata);
        }
        let was_first = first;
        let mut write = |out: &mut Vec<u8>, object: &Object| {
            out.extend_from_slice(if first { view.first_item() } else { b"," });
            first = false;
            view.write_item(out, object);
            out.len() >= CHUNK
        };
        let full = source.until(|object| write(out, object));
        if full {
            *stage = Stage::Items;
            return;
        }
        out.extend_from_slice(if was_first && first { view.no_items() } else { b"]" });
        view.close_list(out, metadata);
        out.push(b'\n');
        *stage = Stage::Done;
    }

    /// Measures a chunk's worth of objects for the length at the start of a protobuf list; false when all are.
    fn is_measuring(&mut self) -> bool {
        let Self { view, measuring, measured, .. } = self;
        let Some(source) = measuring else {
            return false;
        };
        let mut looked_at = 0;
        let more = source.until(|object| {
            let length = view.item_message_len(object);
            *measured += protobuf::item_len(length);
            looked_at += length;
            looked_at >= CHUNK
        });
        if !more {
            *measuring = None;
        }
        more
    }

    fn fill_messages(&mut self, out: &mut Vec<u8>) {
        let Self { view, source, stage, metadata, measured, .. } = self;
        if *stage == Stage::Start {
            view.open_messages(out, metadata, *measured);
        }
        let full = source.until(|object| {
            protobuf::write_item(&view.item_message(object), out);
            out.len() >= CHUNK
        });
        *stage = if full { Stage::Items } else { Stage::Done };
        if !full {
            protobuf::close_list(out);
        }
    }
}

impl Source {
    /// Takes objects until `enough` says so, and returns whether it did.
    fn until(&mut self, mut enough: impl FnMut(&Arc<Object>) -> bool) -> bool {
        match self {
            Self::Page(page) => page.any(|object| enough(&object)),
            Self::Scan(scan) => {
                let mut full = false;
                scan.take(|object| {
                    full = enough(object);
                    full
                });
                full
            }
        }
    }
}
