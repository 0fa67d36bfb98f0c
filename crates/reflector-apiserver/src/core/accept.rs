//! Content negotiation: the router's comparison of bare types, the handler's choice among clauses, and the second
//! choice for error bodies (`k8s.io/apiserver/pkg/endpoints/handlers/negotiation`).

use http::{HeaderMap, header};

use super::{
    query::Query,
    status::{Details, Outcome, Status},
};

/// The types that routes of built-in resources name. Only JSON is produced, and protobuf for refusals: see [`Format`].
const ROUTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const ROUTED_STREAMS: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// A format that answers are written in. YAML and CBOR would be further variants: negotiation follows
/// [`Format::PRODUCED`], and `View` is the place that writes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    /// For refusals only.
    Protobuf,
}

impl Format {
    const PRODUCED: [Self; 1] = [Self::Json];
    const FOR_ERRORS: [Self; 2] = [Self::Json, Self::Protobuf];

    const fn media(self) -> (&'static str, &'static str) {
        match self {
            Self::Json => ("application", "json"),
            Self::Protobuf => ("application", "vnd.kubernetes.protobuf"),
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
    pub(super) fn negotiate(&self, streaming: bool) -> Outcome<Media> {
        if self.header.is_empty() {
            return Ok(Media { format: Format::Json, transform: Transform::None, pretty: self.pretty });
        }
        self.choose(true).ok_or_else(|| {
            let known = if streaming { ROUTED_STREAMS.join(", ") } else { ROUTED.join(", ") };
            Status::new(406, "NotAcceptable", format!("only the following media types are accepted: {known}"))
        })
    }

    /// How an error is written: no clause with a transformation counts, and where none is left it is indented JSON.
    pub(super) fn for_error(&self) -> Media {
        let fallback = Media { format: Format::Json, transform: Transform::None, pretty: true };
        if self.header.is_empty() {
            return Media { pretty: self.pretty, ..fallback };
        }
        self.choose(false).unwrap_or(fallback)
    }

    fn choose(&self, transforms: bool) -> Option<Media> {
        self.clauses.iter().find_map(|clause| {
            let formats = if transforms { &Format::PRODUCED[..] } else { &Format::FOR_ERRORS[..] };
            let format = formats.iter().copied().find(|format| {
                let (main, sub) = format.media();
                (clause.main == "*" || clause.main == main) && (clause.sub == "*" || clause.sub == sub)
            })?;
            let transform = clause.transform()?;
            if !transforms && transform != Transform::None {
                return None;
            }
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
        let table = [
            ("application/json", Some(Transform::None)),
            ("application/json;stream=watch", Some(Transform::None)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io", Some(Transform::Table("meta.k8s.io/v1"))),
            ("application/json;as=Foo;v=v1;g=meta.k8s.io", None),
            ("application/json;as=Foo;v=v1;g=meta.k8s.io, application/json", Some(Transform::None)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Transform::None)),
            (
                "application/json;q=0.1, application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
                Some(Transform::Metadata("meta.k8s.io/v1beta1")),
            ),
        ];
        for (accept, expected) in table {
            assert_eq!(
                wishes(accept, "", "").negotiate(false).ok().map(|m| m.transform),
                expected,
                "{accept}"
            );
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
        let pretty = |agent, query| wishes("application/json", agent, query).negotiate(false).unwrap().pretty;
        assert!(pretty("curl/8.0", ""));
        assert!(!pretty("curl/8.0", "pretty=false"));
        assert!(!pretty("kubectl/v1.36", ""));
        assert!(pretty("kubectl/v1.36", "pretty=1"));
        assert!(wishes("application/json;pretty=1", "", "").negotiate(false).unwrap().pretty);
    }
}
