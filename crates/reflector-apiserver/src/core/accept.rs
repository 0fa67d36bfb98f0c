//! Content negotiation: the router's comparison of bare types, the handler's choice among clauses, and the second
//! choice for error bodies (`k8s.io/apiserver/pkg/endpoints/handlers/negotiation`).

use http::{HeaderMap, header};

use super::{
    query::Query,
    registry::Resource,
    status::{Details, Outcome, Status},
};

/// The types that routes of built-in resources name; YAML is not produced: see [`Format`].
const ROUTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const ROUTED_STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// A format that answers are written in. YAML and CBOR would be further variants: negotiation follows
/// [`Format::PRODUCED`], and `View` is the place that writes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Format {
    Json,
    Protobuf,
}

impl Format {
    const PRODUCED: [Self; 2] = [Self::Json, Self::Protobuf];

    const fn media(self) -> (&'static str, &'static str) {
        match self {
            Self::Json => ("application", "json"),
            Self::Protobuf => ("application", "vnd.kubernetes.protobuf"),
        }
    }

    /// Whether there is such a form of the resource: protobuf needs a schema, which custom resources have only for their
    /// metadata, and a Table not at all.
    fn suits(self, resource: &Resource, transform: Transform) -> bool {
        match (self, transform) {
            (Self::Json, _) => true,
            (Self::Protobuf, Transform::None) => resource.message().is_some(),
            (Self::Protobuf, Transform::Metadata(_) | Transform::MetadataList(_)) => true,
            (Self::Protobuf, Transform::Table(_)) => false,
        }
    }

    /// The Content-Type of an answer.
    pub(super) const fn content_type(self, watch: bool) -> &'static str {
        match (self, watch) {
            (Self::Json, _) => "application/json",
            (Self::Protobuf, false) => "application/vnd.kubernetes.protobuf",
            (Self::Protobuf, true) => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// What `as=` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Transform {
    #[default]
    None,
    Metadata(&'static str),
    MetadataList(&'static str),
    Table(&'static str),
}

/// The outcome of a negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Media {
    pub(super) format: Format,
    pub(super) transform: Transform,
    pub(super) pretty: bool,
}

/// What the client said about the answer it wants.
#[derive(Debug, Clone, Default)]
pub(super) struct Wishes {
    header: String,
    clauses: Vec<Clause>,
    pretty: bool,
}

#[derive(Debug, Clone)]
struct Clause {
    main: String,
    sub: String,
    quality: f32,
    params: Vec<(String, String)>,
}

impl Wishes {
    pub(super) fn new(headers: &HeaderMap, query: &Query) -> Self {
        let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let header = text(header::ACCEPT).to_owned();
        let mut clauses: Vec<_> = header.split(',').filter_map(Clause::parse).collect();
        clauses.sort_by(|a, b| {
            let specific = |c: &Clause| (c.main == "*", c.sub == "*");
            b.quality.total_cmp(&a.quality).then(specific(a).cmp(&specific(b)))
        });
        let agent = text(header::USER_AGENT);
        let pretty = match query.get("pretty") {
            None | Some("") => ["curl", "Wget", "Mozilla/5.0"].iter().any(|a| agent.starts_with(a)),
            Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        };
        Self { header, clauses, pretty }
    }

    /// The router's check: the bare type of some clause must be one it knows, letter by letter, or `*/*`.
    pub(super) fn check_route(&self, list: bool) -> Outcome<()> {
        let bare = |clause: &str| clause.split(';').next().unwrap_or_default().trim().to_owned();
        let accepted = |clause: &str| {
            let bare = bare(clause);
            bare == "*/*" || ROUTED.contains(&bare.as_str())
        };
        if self.header.is_empty() || self.header.split(',').any(accepted) {
            return Ok(());
        }
        let mut known = ROUTED.to_vec();
        if list {
            known.extend(ROUTED_STREAMS);
        }
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", known.join(", "));
        Err(Status::new(406, "NotAcceptable", message).with(Details::default()))
    }

    /// The handler's choice.
    pub(super) fn negotiate(&self, resource: &Resource, watching: bool) -> Outcome<Media> {
        if self.header.is_empty() {
            return Ok(Media { format: Format::Json, transform: Transform::None, pretty: self.pretty });
        }
        let usable = |format: Format, transform| format.suits(resource, transform);
        self.choose(usable).ok_or_else(|| {
            // Custom resources name their types without the streams' parameter.
            let known =
                if watching && !resource.custom { ROUTED_STREAMS.join(", ") } else { ROUTED.join(", ") };
            Status::new(406, "NotAcceptable", format!("only the following media types are accepted: {known}"))
        })
    }

    /// How an error is written: no clause with a transformation counts, and where none is left it is indented JSON.
    pub(super) fn for_error(&self) -> Media {
        let fallback = Media { format: Format::Json, transform: Transform::None, pretty: true };
        if self.header.is_empty() {
            return Media { pretty: self.pretty, ..fallback };
        }
        self.choose(|_, transform| transform == Transform::None).unwrap_or(fallback)
    }

    fn choose(&self, usable: impl Fn(Format, Transform) -> bool) -> Option<Media> {
        self.clauses.iter().find_map(|clause| {
            let transform = clause.transform()?;
            let format = Format::PRODUCED.into_iter().find(|format| {
                let (main, sub) = format.media();
                (clause.main == "*" || clause.main == main)
                    && (clause.sub == "*" || clause.sub == sub)
                    && usable(*format, transform)
            })?;
            let pretty = self.pretty || clause.param("pretty") == Some("1");
            Some(Media { format, transform, pretty })
        })
    }
}

impl Clause {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (main, sub) = match parts.next()? {
            "*" => ("*", "*"),
            media => media.split_once('/')?,
        };
        let mut clause = Self { main: main.into(), sub: sub.into(), quality: 1.0, params: Vec::new() };
        for (name, value) in parts.filter_map(|p| p.split_once('=')) {
            match name {
                "q" => clause.quality = value.parse().unwrap_or(1.0),
                _ => clause.params.push((name.into(), value.into())),
            }
        }
        Some(clause)
    }

    fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// `None` if the parameters make the clause unusable.
    fn transform(&self) -> Option<Transform> {
        if self.param("stream").is_some_and(|stream| stream != "watch") {
            return None;
        }
        let (kind, group, version) = (self.param("as"), self.param("g"), self.param("v"));
        if kind.is_none() && group.is_none() && version.is_none() {
            return Some(Transform::None);
        }
        let version = match version? {
            "v1" => "meta.k8s.io/v1",
            "v1beta1" => "meta.k8s.io/v1beta1",
            _ => return None,
        };
        match (kind?, group?) {
            ("Table", "meta.k8s.io") => Some(Transform::Table(version)),
            ("PartialObjectMetadata", "meta.k8s.io") => Some(Transform::Metadata(version)),
            ("PartialObjectMetadataList", "meta.k8s.io") => Some(Transform::MetadataList(version)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn wishes(accept: &str, agent: &str, query: &str) -> Wishes {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
        headers.insert(header::USER_AGENT, HeaderValue::from_str(agent).unwrap());
        Wishes::new(&headers, &Query::parse(query))
    }

    fn resource(group: &str, plural: &str) -> std::sync::Arc<Resource> {
        let mut registry = super::super::registry::Registry::new();
        registry.add(Resource::from_custom(&super::super::CustomResource {
            group: "example.com".into(),
            version: "v1".into(),
            kind: "Gadget".into(),
            plural: "gadgets".into(),
            ..Default::default()
        }));
        registry.find(group, "v1", plural).unwrap().clone()
    }

    #[test]
    fn the_router_compares_bare_types() {
        let table = [
            ("", true),
            ("*/*", true),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", true),
            ("application/*", false),
            ("Application/JSON", false),
            ("application/xml, application/json;q=0", true),
            ("application/xml", false),
            ("application/cbor", false),
        ];
        for (accept, expected) in table {
            assert_eq!(wishes(accept, "", "").check_route(true).is_ok(), expected, "{accept}");
        }
    }

    #[test]
    fn clauses_that_cannot_be_used_are_skipped() {
        use Format::{Json, Protobuf};
        const V1: &str = "meta.k8s.io/v1";
        let (pods, gadgets) = (resource("", "pods"), resource("example.com", "gadgets"));
        // What there is of a built-in resource, and of a custom one.
        let table = [
            ("", Some((Json, Transform::None)), Some((Json, Transform::None))),
            ("*/*", Some((Json, Transform::None)), Some((Json, Transform::None))),
            ("application/json", Some((Json, Transform::None)), Some((Json, Transform::None))),
            ("application/json;stream=watch", Some((Json, Transform::None)), Some((Json, Transform::None))),
            ("json;as=Table", Some((Json, Transform::Table(V1))), Some((Json, Transform::Table(V1)))),
            ("json;as=Foo", None, None),
            ("json;as=Foo, application/json", Some((Json, Transform::None)), Some((Json, Transform::None))),
            ("pb", Some((Protobuf, Transform::None)), None),
            ("pb;stream=watch", Some((Protobuf, Transform::None)), None),
            ("pb;stream=other", None, None),
            ("pb,application/json", Some((Protobuf, Transform::None)), Some((Json, Transform::None))),
            ("application/json,pb", Some((Json, Transform::None)), Some((Json, Transform::None))),
            (
                "application/json;q=0.5, pb;q=0.9",
                Some((Protobuf, Transform::None)),
                Some((Json, Transform::None)),
            ),
            ("pb;as=Table", None, None),
            (
                "pb;as=Table, json;as=Table",
                Some((Json, Transform::Table(V1))),
                Some((Json, Transform::Table(V1))),
            ),
            (
                "pb;as=PartialObjectMetadata, application/json",
                Some((Protobuf, Transform::Metadata(V1))),
                Some((Protobuf, Transform::Metadata(V1))),
            ),
            (
                "*/*;as=PartialObjectMetadataList",
                Some((Json, Transform::MetadataList(V1))),
                Some((Json, Transform::MetadataList(V1))),
            ),
            (
                "application/json;q=0.1, json;as=PartialObjectMetadata",
                Some((Json, Transform::Metadata(V1))),
                Some((Json, Transform::Metadata(V1))),
            ),
        ];
        for (short, built_in, custom) in table {
            let clause = |clause: &str| {
                let clause = clause.trim().replace("pb", "application/vnd.kubernetes.protobuf");
                let clause =
                    clause.strip_prefix("json").map_or(clause.clone(), |c| format!("application/json{c}"));
                if clause.contains("as=") { clause + ";v=v1;g=meta.k8s.io" } else { clause }
            };
            let accept: Vec<_> = short.split(',').map(clause).collect();
            let wishes = wishes(&accept.join(","), "", "");
            for (resource, expected) in [(&pods, built_in), (&gadgets, custom)] {
                let media = wishes.negotiate(resource, false).ok();
                assert_eq!(
                    media.map(|m| (m.format, m.transform)),
                    expected,
                    "{short} of {}",
                    resource.plural
                );
            }
        }
    }

    #[test]
    fn errors_are_indented_where_no_bare_clause_is_left() {
        assert!(!wishes("application/json", "", "").for_error().pretty);
        assert!(!wishes("application/*", "", "").for_error().pretty);
        assert!(wishes("application/json;as=Table;v=v1;g=meta.k8s.io", "", "").for_error().pretty);
        assert!(wishes("application/xml", "", "").for_error().pretty);
    }

    #[test]
    fn people_get_indented_json() {
        let pods = resource("", "pods");
        let pretty =
            |agent, query| wishes("application/json", agent, query).negotiate(&pods, false).unwrap().pretty;
        assert!(pretty("curl/8.0", ""));
        assert!(!pretty("curl/8.0", "pretty=false"));
        assert!(!pretty("kubectl/v1.36", ""));
        assert!(pretty("kubectl/v1.36", "pretty=1"));
        assert!(wishes("application/json;pretty=1", "", "").negotiate(&pods, false).unwrap().pretty);
    }
}
