//! Each rule of how a value stands in protobuf and in JSON.
// Helpers outside the test functions are tests too.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::needless_pass_by_value)]

mod bytes;

use bytes::{bool, bytes, double, int, message, text};
use reflector_protobuf::{Error, ErrorKind, Kind, Message, from_message, from_slice, to_json};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

fn read<'de, T: Deserialize<'de>>(name: &str, bytes: &'de [u8]) -> Result<T, Error> {
    from_message(Message::find(name).unwrap(), bytes)
}

#[track_caller]
fn check(name: &str, fields: &[Vec<u8>], expected: Value) {
    assert_eq!(read::<Value>(name, &fields.concat()).unwrap(), expected);
}

#[test]
fn a_zero_is_explicit_behind_a_pointer_and_nothing_elsewhere() {
    // A pointer with omitempty.
    check("api.apps.v1.DeploymentStrategy", &[], json!({}));
    check("api.core.v1.PersistentVolumeClaimSpec", &[text(5, "")], json!({"storageClassName": ""}));
    check(
        "api.core.v1.SecurityContext",
        &[int(4, 0), bool(5, false)],
        json!({"runAsUser": 0, "runAsNonRoot": false}),
    );
    // No pointer, omitempty.
    check("api.core.v1.LocalObjectReference", &[text(1, "")], json!({}));
    check("api.core.v1.EmptyDirVolumeSource", &[text(1, "")], json!({}));
    check(
        "api.core.v1.ContainerStatus",
        &[text(1, "a"), bool(4, false), int(5, 0), text(6, ""), text(7, ""), text(8, "")],
        json!({"name": "a", "ready": false, "restartCount": 0, "image": "", "imageID": ""}),
    );
    // No pointer, no omitempty: also where it is absent on the wire.
    check("api.core.v1.EnvVar", &[], json!({"name": ""}));
    check("api.core.v1.VolumeMount", &[text(3, "/x")], json!({"name": "", "mountPath": "/x"}));
    check("api.core.v1.ContainerPort", &[], json!({"containerPort": 0}));
    // A struct with omitempty is written when it is empty, a pointer to one as well.
    check("api.core.v1.Namespace", &[message(2, &[]), message(3, &[])], json!({"spec": {}, "status": {}}));
    check("api.core.v1.SecurityContext", &[message(1, &[])], json!({"capabilities": {}}));
}

#[test]
fn a_list_or_map_that_must_be_there_is_null_or_empty() {
    #[derive(Deserialize, Debug, PartialEq)]
    struct Plain<T> {
        containers: T,
    }
    check("api.core.v1.PodSpec", &[], json!({"containers": null}));
    let spec = "api.core.v1.PodSpec";
    assert_eq!(read::<Plain<Vec<Value>>>(spec, b"").unwrap().containers, [Value::Null; 0]);
    assert_eq!(read::<Plain<Option<Vec<Value>>>>(spec, b"").unwrap().containers, None);
    // So is a pointer.
    check(
        "api.authentication.v1.TokenRequestSpec",
        &[],
        json!({"audiences": null, "boundObjectRef": null, "expirationSeconds": null}),
    );
}

#[test]
fn bytes_are_base64() {
    let entry = |value: &[u8]| message(2, &[text(1, "k"), bytes(2, value)]);
    check("api.core.v1.Secret", &[entry(b"\xff\xfe\0")], json!({"data": {"k": "//4A"}}));
    check("api.core.v1.Secret", &[message(2, &[text(1, "k")])], json!({"data": {"k": ""}}));
    let name = "api.certificates.v1.CertificateSigningRequestSpec";
    let of = |fields: &[Vec<u8>]| read::<Value>(name, &fields.concat()).unwrap()["request"].clone();
    assert_eq!(of(&[bytes(1, b"ab")]), "YWI=");
    assert_eq!(of(&[bytes(1, b"")]), "");
    assert_eq!(of(&[]), Value::Null);
}

#[test]
fn times() {
    let meta = "apimachinery.pkg.apis.meta.v1.ObjectMeta";
    check(meta, &[message(8, &[])], json!({}));
    check(
        meta,
        &[message(8, &[int(1, 1_700_000_000), int(2, 999_999_999)])],
        json!({"creationTimestamp": "2023-11-14T22:13:20Z"}),
    );
    check(meta, &[message(9, &[])], json!({"deletionTimestamp": null}));
    check(meta, &[message(9, &[int(1, -62_135_596_800)])], json!({"deletionTimestamp": null}));
    check(meta, &[message(9, &[int(2, 5)])], json!({"deletionTimestamp": "1970-01-01T00:00:00Z"}));
    check(
        meta,
        &[message(9, &[int(1, -1), int(2, 5)])],
        json!({"deletionTimestamp": "1969-12-31T23:59:59Z"}),
    );
    let lease = "api.coordination.v1.LeaseSpec";
    let micro = |s, n| message(4, &[int(1, s), int(2, n)]);
    check(lease, &[micro(0, 1_234_567)], json!({"renewTime": "1970-01-01T00:00:00.001234Z"}));
    check(lease, &[micro(0, -1_000)], json!({"renewTime": "1969-12-31T23:59:59.999999Z"}));
    check(lease, &[micro(0, 1_500_000_000)], json!({"renewTime": "1970-01-01T00:00:01.500000Z"}));
    check(lease, &[message(4, &[])], json!({"renewTime": null}));
    // A server writes null for the other times that are no pointers.
    check(
        "api.core.v1.PodCondition",
        &[text(1, "Ready"), text(2, "True"), message(3, &[])],
        json!({"type": "Ready", "status": "True", "lastProbeTime": null}),
    );
    let error = read::<Value>(meta, &message(9, &[int(1, i64::MAX)])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Time { seconds: i64::MAX }), "{error}");
    assert_eq!(error.path(), "deletionTimestamp");
}

#[test]
fn numbers() {
    check("api.core.v1.SecurityContext", &[int(4, -1)], json!({"runAsUser": -1}));
    check(
        "api.core.v1.Container",
        &[text(1, "a"), message(12, &[])],
        json!({"name": "a", "resources": null})
            .as_object()
            .map(|_| json!({"name": "a", "lifecycle": {}}))
            .unwrap(),
    );
    check("api.core.v1.ContainerPort", &[int(3, 1 << 32 | 80)], json!({"containerPort": 80}));
    let schema = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    // Go writes a whole float without a point, so a reader of JSON takes it for an integer.
    for (number, expected) in
        [(1.5, json!(1.5)), (3.0, json!(3)), (-3.0, json!(-3)), (0.0, json!(0)), (1e300, json!(1e300))]
    {
        let schema = read::<Value>(schema, &double(9, number)).unwrap();
        assert_eq!(schema["maximum"], expected);
    }
    assert!(matches!(
        read::<Value>(schema, &double(9, f64::NAN)).unwrap_err().kind(),
        ErrorKind::NotFinite(_)
    ));
    // Packed, as Go reads but does not write it.
    check(
        "api.core.v1.PodSecurityContext",
        &[bytes(4, &[1, 2, 0x80, 1])],
        json!({"supplementalGroups": [1, 2, 128]}),
    );
    check(
        "api.core.v1.PodSecurityContext",
        &[int(4, 7), bytes(4, &[1, 2])],
        json!({"supplementalGroups": [7, 1, 2]}),
    );
}

#[test]
fn quantities_and_ints_or_strings() {
    let limits = |value: &[Vec<u8>]| message(1, &[text(1, "cpu"), message(2, value)]);
    check(
        "api.core.v1.ResourceRequirements",
        &[limits(&[text(1, "10m")])],
        json!({"limits": {"cpu": "10m"}}),
    );
    check("api.core.v1.ResourceRequirements", &[limits(&[])], json!({"limits": {"cpu": "0"}}));
    let port = |value: &[Vec<u8>]| message(1, value);
    let action = "api.core.v1.TCPSocketAction";
    check(action, &[port(&[int(1, 0), int(2, 80), text(3, "")])], json!({"port": 80}));
    check(action, &[port(&[int(1, 1), int(2, 0), text(3, "http")])], json!({"port": "http"}));
    check(action, &[port(&[])], json!({"port": 0}));
    check(action, &[], json!({"port": 0}));
}

#[test]
fn json_in_protobuf() {
    let entry = |json: &str| message(7, &[text(1, json)]);
    let name = "apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";
    check(
        name,
        &[entry(r#"{"f:metadata":{"f:labels":{}}}"#)],
        json!({"fieldsV1": {"f:metadata": {"f:labels": {}}}}),
    );
    check(name, &[message(7, &[])], json!({"fieldsV1": null}));
    let error = read::<Value>(name, &entry("{")).unwrap_err();
    assert_eq!(error.path(), "fieldsV1");
    assert!(matches!(error.kind(), ErrorKind::Json(_)));
    assert!(matches!(read::<Value>(name, &entry("1 2")).unwrap_err().kind(), ErrorKind::Json(_)));
    let kind = Kind::find("apps/v1", "ControllerRevision").unwrap();
    let revision = message(2, &[text(1, "{ \"a b\" :\n [1.50, \"\\\" x\"] }")]);
    let mut out = b"> ".to_vec();
    to_json(kind, &revision, &mut out).unwrap();
    let expected =
        r#"> {"apiVersion":"apps/v1","kind":"ControllerRevision","data":{"a b":[1.50,"\" x"]},"revision":0}"#;
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let mut out = b"> ".to_vec();
    to_json(kind, &message(2, &[text(1, "{ \"a b\" 1}")]), &mut out).unwrap_err();
    assert_eq!(out, b"> ");
}

#[test]
fn objects_in_objects() {
    let enveloped = |kind: &str, raw: &[u8]| {
        let unknown = [message(1, &[text(1, "v1"), text(2, kind)]), bytes(2, raw)].concat();
        message(2, &[bytes(1, &[b"k8s\0", &unknown[..]].concat())])
    };
    let namespace = message(1, &[text(1, "shire")]);
    let items =
        [enveloped("Namespace", &namespace), message(2, &[text(1, r#"{"kind":"Gadget"}"#)]), message(2, &[])];
    check(
        "api.core.v1.List",
        &items,
        json!({"items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shire"}},
            {"kind": "Gadget"},
            null,
        ]}),
    );
    let error = read::<Value>("api.core.v1.List", &[items[0].clone(), enveloped("Gadget", b"")].concat())
        .unwrap_err();
    assert_eq!(error.to_string(), "items[1]: embedded object of the unknown kind v1 Gadget");
}

#[test]
fn schemas_or_something_else() {
    let name = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let schema = |number, ty| message(number, &[text(5, ty)]);
    check(name, &[message(24, &[schema(1, "a")])], json!({"items": {"type": "a"}}));
    check(
        name,
        &[message(24, &[schema(2, "a"), schema(2, "b")])],
        json!({"items": [{"type": "a"}, {"type": "b"}]}),
    );
    check(name, &[message(24, &[])], json!({"items": null}));
    check(name, &[message(30, &[bool(1, true)])], json!({"additionalProperties": true}));
    check(
        name,
        &[message(30, &[bool(1, true), schema(2, "a")])],
        json!({"additionalProperties": {"type": "a"}}),
    );
    check(name, &[message(30, &[])], json!({"additionalProperties": false}));
    let dependency = |value: Vec<u8>| message(32, &[text(1, "k"), message(2, &[value])]);
    check(name, &[dependency(schema(1, "a"))], json!({"dependencies": {"k": {"type": "a"}}}));
    check(
        name,
        &[dependency([text(2, "a"), text(2, "b")].concat())],
        json!({"dependencies": {"k": ["a", "b"]}}),
    );
    check(name, &[dependency(vec![])], json!({"dependencies": {"k": null}}));
}

#[test]
fn wrapped_lists() {
    let extra = message(4, &[text(1, "k"), message(2, &[text(1, "a"), text(1, "")])]);
    check("api.authentication.v1.UserInfo", &[extra], json!({"extra": {"k": ["a", ""]}}));
    check(
        "api.authentication.v1.UserInfo",
        &[message(4, &[text(1, "k"), message(2, &[])])],
        json!({"extra": {"k": []}}),
    );
}

#[test]
fn embedded_messages() {
    let volume = [text(1, "v"), message(2, &[message(2, &[text(1, "Memory")])])];
    check("api.core.v1.Volume", &volume, json!({"name": "v", "emptyDir": {"medium": "Memory"}}));
    let rule = |inner: &[Vec<u8>]| [text(1, "n"), message(2, &[text(1, "CREATE"), message(2, inner)])];
    check(
        "api.admissionregistration.v1.NamedRuleWithOperations",
        &rule(&[text(1, "apps")]),
        json!({"resourceNames": ["n"], "operations": ["CREATE"], "apiGroups": ["apps"]}),
    );
    check(
        "api.core.v1.Probe",
        &[message(1, &[message(3, &[])]), int(2, 5)],
        json!({"tcpSocket": {"port": 0}, "initialDelaySeconds": 5}),
    );
}

#[test]
fn unknown_fields_are_skipped() {
    let fields = [
        text(1, "a"),
        int(90, 5),
        text(1000, "x"),
        double(91, 1.0),
        vec![0xe5, 0x05, 1, 2, 3, 4],
        int(2, 80),
    ];
    check("api.core.v1.ContainerPort", &fields, json!({"name": "a", "hostPort": 80, "containerPort": 0}));
}

/// As Go reads them: lists go on, scalars are replaced, messages are merged.
#[test]
fn fields_may_have_any_order() {
    #[derive(Deserialize, Debug, PartialEq)]
    struct Slim<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize, Debug, PartialEq)]
    struct Metadata<'a> {
        name: &'a str,
        namespace: &'a str,
    }
    let pod = [
        message(2, &[text(10, "node"), message(2, &[text(1, "a")])]),
        message(1, &[text(3, "ns"), text(1, "first"), text(1, "last")]),
        message(1, &[text(5, "uid")]),
        message(2, &[message(2, &[text(2, "image"), text(1, "b")]), text(10, "other")]),
    ]
    .concat();
    let kind = Kind::find("v1", "Pod").unwrap();
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "last", "namespace": "ns", "uid": "uid"},
        "spec": {"containers": [{"name": "a", "resources": {}}, {"name": "b", "image": "image", "resources": {}}], "nodeName": "other"},
    });
    let without_resources = |mut value: Value| {
        for container in value["spec"]["containers"].as_array_mut().unwrap() {
            container.as_object_mut().unwrap().remove("resources");
        }
        value
    };
    let value: Value = from_slice(kind, &pod).unwrap();
    assert_eq!(without_resources(value.clone()), without_resources(expected));
    let mut text = Vec::new();
    to_json(kind, &pod, &mut text).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), value);
    let slim: Slim<'_> = from_slice(kind, &pod).unwrap();
    assert_eq!(slim, Slim { metadata: Metadata { name: "last", namespace: "ns" } });
}

/// A type that takes a default where it cannot read does not hide that it has to be read again.
#[test]
fn disorder_is_found_also_where_its_error_is_swallowed() {
    #[derive(Deserialize, Default, Debug, PartialEq)]
    struct Lenient {
        #[serde(deserialize_with = "or_default")]
        metadata: Value,
    }
    fn or_default<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        Ok(Value::deserialize(deserializer).unwrap_or_default())
    }
    let bytes = message(1, &[text(3, "ns"), text(1, "name")]);
    let read: Lenient = from_slice(Kind::find("v1", "Pod").unwrap(), &bytes).unwrap();
    assert_eq!(read.metadata, json!({"name": "name", "namespace": "ns"}));
}

#[test]
fn depth_is_bounded() {
    let name = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let nested = |levels| {
        (0..levels).fold(Vec::new(), |inner, _| bytes(29, &[text(1, "a"), bytes(2, &inner)].concat()))
    };
    let deep = nested(63);
    let value: Value = read(name, &deep).unwrap();
    // The same bound as that of JSON.
    serde_json::from_str::<Value>(&value.to_string()).unwrap();
    let error = read::<Value>(name, &nested(64)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Depth), "{error}");
    let error = read::<Value>(name, &nested(3_000)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Depth), "{error}");
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
    read::<JSONSchemaProps>(name, &deep).unwrap();
}

#[test]
fn errors_say_where() {
    let pod = |containers: &[Vec<u8>]| message(2, containers);
    let kind = Kind::find("v1", "Pod").unwrap();
    let path = |bytes: &[u8]| from_slice::<Value>(kind, bytes).unwrap_err().to_string();
    let bad = [message(2, &[text(1, "a")]), message(2, &[bytes(1, b"\xff")])];
    assert_eq!(path(&pod(&bad)), "spec.containers[1].name: invalid UTF-8");
    assert_eq!(
        path(&pod(&[text(5, "soon")])),
        "spec.activeDeadlineSeconds: wire type Bytes where Varint is expected"
    );
    assert_eq!(
        path(&pod(&[text(3, "Always"), vec![0x22, 9]])),
        "spec: the bytes end within the field at offset 9"
    );
    assert_eq!(
        path(&message(1, &[message(11, &[text(1, "a/b"), int(2, 1)])])),
        r#"metadata.labels["a/b"]: wire type Varint where Bytes is expected"#
    );
    #[derive(Deserialize, Debug)]
    struct Wrong {
        #[serde(rename = "spec")]
        _spec: Vec<String>,
    }
    let error = from_slice::<Wrong>(kind, &pod(&[])).unwrap_err();
    assert_eq!(error.to_string(), "spec: invalid type: map, expected a sequence");
}

#[test]
fn types_of_all_sorts() {
    #[derive(Deserialize, Debug, PartialEq)]
    enum Phase {
        Running,
        Pending,
    }
    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(untagged)]
    enum Port {
        Number(u16),
        Name(String),
    }
    #[derive(Deserialize, Debug)]
    #[serde(rename_all = "camelCase")]
    enum Source {
        EmptyDir {},
        Secret {
            #[serde(rename = "secretName")]
            name: String,
        },
    }
    #[derive(Deserialize, Debug)]
    struct Volume {
        name: String,
        #[serde(flatten)]
        source: Source,
    }
    #[derive(Deserialize)]
    struct Status<'a> {
        phase: Phase,
        #[serde(rename = "podIP")]
        pod_ip: Option<std::net::IpAddr>,
        #[serde(borrow)]
        message: std::borrow::Cow<'a, str>,
    }
    #[derive(Deserialize)]
    struct Action {
        port: Port,
    }
    let status = [text(1, "Running"), text(3, "well"), text(6, "10.0.0.1")].concat();
    let read_status: Status<'_> = read("api.core.v1.PodStatus", &status).unwrap();
    assert_eq!((read_status.phase, &*read_status.message), (Phase::Running, "well"));
    assert_eq!(read_status.pod_ip, Some([10, 0, 0, 1].into()));
    let status = [text(1, "Pending"), text(3, "x")].concat();
    let pending: Status<'_> = read("api.core.v1.PodStatus", &status).unwrap();
    assert_eq!((pending.phase, pending.pod_ip), (Phase::Pending, None));
    let port =
        |fields: &[Vec<u8>]| read::<Action>("api.core.v1.TCPSocketAction", &message(1, fields)).unwrap().port;
    assert_eq!(port(&[int(2, 80)]), Port::Number(80));
    assert_eq!(port(&[int(1, 1), text(3, "http")]), Port::Name("http".into()));
    let volume = [text(1, "v"), message(2, &[message(6, &[text(1, "s")])])].concat();
    let volume: Volume = read("api.core.v1.Volume", &volume).unwrap();
    assert!(
        matches!((&*volume.name, &volume.source), ("v", Source::Secret { name }) if name == "s"),
        "{volume:?}"
    );
    let volume: Volume = read("api.core.v1.Volume", &message(2, &[message(2, &[])])).unwrap();
    assert!(matches!(volume.source, Source::EmptyDir {}), "{volume:?}");
}

#[test]
fn raw_values_are_text() {
    #[derive(Deserialize)]
    struct Pod<'a> {
        spec: Box<RawValue>,
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        #[serde(borrow)]
        managed_fields: Vec<Entry<'a>>,
    }
    #[derive(Deserialize)]
    struct Entry<'a> {
        #[serde(borrow, rename = "fieldsV1")]
        fields: &'a RawValue,
    }
    let entry = message(17, &[message(7, &[text(1, r#"{"f:spec": {}}"#)])]);
    let pod = [message(1, &[entry]), message(2, &[text(3, "Always")])].concat();
    let pod: Pod<'_> = from_slice(Kind::find("v1", "Pod").unwrap(), &pod).unwrap();
    assert_eq!(pod.spec.get(), r#"{"containers":null,"restartPolicy":"Always"}"#);
    assert_eq!(pod.metadata.managed_fields[0].fields.get(), r#"{"f:spec": {}}"#);
}
