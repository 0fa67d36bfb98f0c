//! Selectors on the store: with and without an index of the label, in one namespace and in all.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use reflector::{Cache, Change, FieldSelector, IndexBy, LabelSelector, Object, Store};

type Json = serde_json::Value;

fn object(namespace: &str, name: &str, labels: &[(&str, &str)]) -> Object<Json> {
    let labels: serde_json::Map<_, _> = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
    let json = serde_json::json!({
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"nodeName": format!("n-{name}")},
    });
    Object::from_json(json.to_string()).unwrap()
}

fn names<'a>(objects: impl Iterator<Item = &'a Object<Json>>) -> String {
    objects.map(|o| o.key().to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn objects_are_selected_by_labels_and_fields() {
    // client-go: ListAll (LI-1)
    let (cache, mut writer) = Cache::new();
    let objects = [
        object("a", "1", &[("app", "web")]),
        object("a", "2", &[("app", "api"), ("tier", "x")]),
        object("b", "1", &[("app", "web"), ("tier", "x")]),
        object("b", "2", &[]),
    ];
    writer.apply(objects.map(Change::Upsert).into(), None).unwrap();
    for indexed in [false, true] {
        if indexed {
            cache.index_by(IndexBy::label("app"));
            cache.index_by(IndexBy::label("tier"));
        }
        let snapshot = cache.snapshot();
        let select = |selector: &str| names(snapshot.select(&selector.parse().unwrap()));
        assert_eq!(select("app=web"), "a/1 b/1");
        assert_eq!(select("app in (web, api, other)"), "a/1 a/2 b/1");
        assert_eq!(select("app=web,tier=x"), "b/1");
        assert_eq!(select("app!=web"), "a/2 b/2");
        assert_eq!(select("!app"), "b/2");
        assert_eq!(select("app=nothing"), "");
        assert_eq!(select(""), "a/1 a/2 b/1 b/2");
        assert_eq!(names(snapshot.select_in("b", &"app=web".parse().unwrap())), "b/1");
        assert_eq!(names(snapshot.select_in("b", &"!app".parse().unwrap())), "b/2");
    }
    let snapshot = cache.snapshot();
    let fields = |selector: &str| names(snapshot.select_fields(&selector.parse::<FieldSelector>().unwrap()));
    assert_eq!(fields("spec.nodeName=n-1,metadata.namespace!=a"), "b/1");
    let by_node = cache.index_by(IndexBy::field("spec.nodeName"));
    assert_eq!(names(cache.by(&by_node, "n-2").unwrap().iter()), "a/2 b/2");
    let by_spec = cache.index_by(IndexBy::field("spec"));
    assert_eq!(cache.snapshot().unindexed(&by_spec).unwrap().count(), 4, "a spec is no value");
    let by_nothing = cache.index_by(IndexBy::field("spec.nothing"));
    assert_eq!(cache.snapshot().unindexed(&by_nothing).unwrap().count(), 0);
}

proptest! {
    /// With any indexes of labels, a selector finds what a scan finds, in the same order.
    #[test]
    fn an_index_changes_nothing_but_the_time(
        objects in prop::collection::vec((0..3_u8, prop::option::of(0..3_u8), prop::option::of(0..2_u8)), 0..40),
        selector in prop::sample::select(vec![
            "a=0", "a in (0,1)", "a=1,b=0", "a notin (0)", "b in (0,1),a in (2,1,7)", "a", "!a,b=1", "a>0", "",
        ]),
        index_a: bool,
        index_b: bool,
    ) {
        let (cache, mut writer) = Cache::new();
        if index_a { cache.index_by(IndexBy::label("a")); }
        let all = objects.iter().enumerate().map(|(i, (namespace, a, b))| {
            let (a, b) = (a.map(|a| a.to_string()), b.map(|b| b.to_string()));
            let labels: Vec<_> = [("a", &a), ("b", &b)].into_iter().filter_map(|(k, v)| Some((k, v.as_deref()?))).collect();
            Change::Upsert(object(&namespace.to_string(), &i.to_string(), &labels))
        });
        writer.apply(all.collect(), None).unwrap();
        if index_b { cache.index_by(IndexBy::label("b")); }
        let selector: LabelSelector = selector.parse().unwrap();
        let snapshot = cache.snapshot();
        let scan = |namespace: Option<&str>| {
            names(snapshot.iter().filter(|o| selector.matches(o.meta()) && namespace.is_none_or(|ns| o.namespace() == Some(ns))))
        };
        prop_assert_eq!(names(snapshot.select(&selector)), scan(None));
        prop_assert_eq!(names(snapshot.select_in("1", &selector)), scan(Some("1")));
    }
}
