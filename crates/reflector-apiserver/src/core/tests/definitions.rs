//! Custom resources: from a definition to its end.

use serde_json::{Value, json};

use super::Rig;
use crate::core::CustomResource;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/ns/widgets";

fn definition() -> Value {
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {
    "group": "example.com", "scope": "Namespaced",
    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"]},
    "versions": [
        {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
         "selectableFields": [{"jsonPath": ".spec.color"}],
         "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}]},
        {"name": "v2", "served": true, "storage": false},
    ]}})
}

fn widget(name: &str, color: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"color": color, "a": 1}, "kind": "Widget", "apiVersion": "example.com/v1"})
}

#[test]
fn a_definition_is_established_and_served() {
    let mut rig = Rig::new();
    assert_eq!(rig.get(WIDGETS).code, 404);
    assert_eq!(rig.get(WIDGETS).body(), "404 page not found\n");
    let id = rig.watch(&format!("{CRDS}?watch=1&resourceVersion=2"));
    assert_eq!(rig.post(CRDS, &definition()).code, 201);
    let look = rig.look(id);
    assert_eq!(look.brief(), ["ADDED widgets.example.com@3", "MODIFIED widgets.example.com@4"]);
    let conditions = look.events[1]["object"]["status"]["conditions"].as_array().unwrap().clone();
    let conditions: Vec<_> = conditions.iter().map(|c| (c["type"].clone(), c["status"].clone())).collect();
    assert_eq!(conditions, [(json!("NamesAccepted"), json!("True")), (json!("Established"), json!("True"))]);
    let resource = rig.core.registry().get("example.com", "v1", "widgets").unwrap();
    assert_eq!((resource.short_names.clone(), resource.singular.as_str()), (vec!["wd".to_owned()], "widget"));
    rig.post(WIDGETS, &widget("w", "red"));
    assert_eq!(rig.get(WIDGETS).names(), ["w"]);
    let other = rig.get("/apis/example.com/v2/namespaces/ns/widgets/w").json();
    assert_eq!(
        (other["apiVersion"].clone(), other["spec"]["color"].clone()),
        (json!("example.com/v2"), json!("red"))
    );
}

#[test]
fn custom_lists_have_sorted_keys_and_items_first() {
    let mut rig = Rig::new();
    rig.post(CRDS, &definition());
    let uid = "u";
    rig.core
        .create("widgets", json!({"spec": {"b": 1.5, "a": {"d": 1, "c": 2}}, "metadata": {"uid": uid, "name": "w", "namespace": "ns"}}))
        .unwrap();
    assert_eq!(
        rig.get(WIDGETS).body(),
        "{\"apiVersion\":\"example.com/v1\",\"items\":[{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"creationTimestamp\":\"1970-01-01T00:00:00Z\",\"generation\":1,\"name\":\"w\",\"namespace\":\"ns\",\"resourceVersion\":\"5\",\"uid\":\"u\"},\"spec\":{\"a\":{\"c\":2,\"d\":1},\"b\":1.5}}],\"kind\":\"WidgetList\",\"metadata\":{\"continue\":\"\",\"resourceVersion\":\"5\"}}\n"
    );
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    assert_eq!(
        rig.get_as(&format!("{WIDGETS}/w"), accept).body(),
        "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"name\":\"w\",\"namespace\":\"ns\",\"uid\":\"u\",\"resourceVersion\":\"5\",\"generation\":1,\"creationTimestamp\":\"1970-01-01T00:00:00Z\"}}\n"
    );
}

#[test]
fn selectable_fields_and_columns_come_from_the_definition() {
    let mut rig = Rig::new();
    rig.post(CRDS, &definition());
    rig.post(WIDGETS, &widget("r", "red"));
    rig.post(WIDGETS, &widget("g", "green"));
    assert_eq!(rig.get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dred")).names(), ["r"]);
    let unknown = rig.get(&format!("{WIDGETS}?fieldSelector=spec.a%3D1"));
    assert_eq!(
        (unknown.code, unknown.json()["message"].clone()),
        (400, json!("field label not supported: spec.a"))
    );
    let table = rig.get_as(WIDGETS, "application/json;as=Table;v=v1;g=meta.k8s.io").json();
    assert_eq!(table["rows"][0]["cells"], json!(["g", "green"]));
}

#[test]
fn the_end_of_a_definition_is_the_end_of_its_watches() {
    let mut rig = Rig::new();
    rig.post(CRDS, &definition()); // 3, 4
    rig.post(WIDGETS, &widget("a", "x")); // 5
    rig.post(WIDGETS, &widget("b", "x")); // 6
    let id = rig.watch(&format!("{WIDGETS}?watch=1&resourceVersion=6"));
    assert!(!rig.look(id).ended);
    rig.send("DELETE", &format!("{CRDS}/widgets.example.com"), "", &Value::Null);
    let look = rig.look(id);
    assert_eq!((look.brief(), look.ended), (vec!["DELETED a@7".to_owned(), "DELETED b@8".to_owned()], true));
    let gone = rig.get(WIDGETS);
    assert_eq!((gone.code, gone.body().as_str()), (404, "404 page not found\n"));
    assert_eq!(gone.headers["x-content-type-options"], "nosniff");
    // The next definition of that name starts with nothing.
    rig.post(CRDS, &definition());
    assert_eq!(rig.get(WIDGETS).json()["items"], json!([]));
}

#[test]
fn rewinding_brings_definitions_back_or_takes_them_away() {
    let mut rig = Rig::new();
    rig.post(CRDS, &definition()); // 3, 4
    rig.post(WIDGETS, &widget("a", "x")); // 5
    rig.send("DELETE", &format!("{CRDS}/widgets.example.com"), "", &Value::Null);
    rig.core.rewind(5).unwrap();
    assert_eq!(rig.get(WIDGETS).names(), ["a"]);
    rig.core.rewind(2).unwrap();
    assert_eq!(rig.get(WIDGETS).code, 404);
}

#[test]
fn resources_can_be_registered_from_rust() {
    let mut rig = Rig::new();
    rig.core.register(&CustomResource {
        group: "demo.io".into(),
        version: "v1".into(),
        kind: "Planet".into(),
        plural: "planets".into(),
        ..CustomResource::default()
    });
    rig.core.create("planets", json!({"metadata": {"name": "earth"}})).unwrap();
    assert_eq!(rig.get("/apis/demo.io/v1/planets").names(), ["earth"]);
    rig.core.rewind(2).unwrap();
    assert_eq!(rig.get("/apis/demo.io/v1/planets").json()["items"], json!([]));
}

#[test]
fn a_definition_that_cannot_be_served_is_refused() {
    let mut rig = Rig::new();
    let mut wrong = definition();
    wrong["metadata"]["name"] = json!("gadgets.example.com");
    assert_eq!(rig.post(CRDS, &wrong).code, 422);
    assert_eq!(rig.post(CRDS, &json!({"metadata": {"name": "a.b"}})).code, 422);
}
