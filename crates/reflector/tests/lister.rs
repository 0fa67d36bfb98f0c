//! Listers: reading a cache by name, namespace and predicate.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use reflector::{Cache, Change, Lister, Object, ObjectKey, Store};

type Json = serde_json::Value;

fn lister(objects: &[(&str, &str, &str)]) -> Lister<Json> {
    let (cache, mut writer) = Cache::new();
    let change = |(namespace, name, app): &(&str, &str, &str)| {
        let json = format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","labels":{{"app":"{app}"}}}}}}"#
        );
        Change::Upsert(Object::from_json(json).unwrap())
    };
    writer.apply(objects.iter().map(change).collect(), None).unwrap();
    Lister::new(cache, "pods")
}

fn names(objects: &[Object<Json>]) -> Vec<String> {
    objects.iter().map(|object| object.key().to_string()).collect()
}

const PODS: [(&str, &str, &str); 4] =
    [("shop", "cart", "a"), ("shop", "desk", "b"), ("shop-2", "cart", "a"), ("", "node", "a")];

// client-go: Metadata lister — namespaced get hit/miss, cluster get hit/miss.
#[test]
fn li_1_a_missing_object_is_named_with_its_resource_and_key() {
    let pods = lister(&PODS);
    assert_eq!(pods.get("shop", "cart").unwrap().key().to_string(), "shop/cart");
    assert_eq!(pods.get(None, "node").unwrap().name(), "node");
    assert_eq!(pods.get("", "node").unwrap().name(), "node");
    let missing = pods.get("shop", "node").unwrap_err();
    assert_eq!((&*missing.resource, &missing.key), ("pods", &ObjectKey::new(Some("shop"), "node")));
    assert_eq!(missing.to_string(), "pods shop/node not found in the cache");
    assert_eq!(pods.get(None, "cart").unwrap_err().to_string(), "pods cart not found in the cache");
    let shop = pods.namespaced("shop");
    assert_eq!(shop.get("desk").unwrap().name(), "desk");
    assert_eq!(shop.get("node").unwrap_err().key.to_string(), "shop/node");
    assert_eq!(pods.namespaced("shop-2").get("desk").unwrap_err().key.to_string(), "shop-2/desk");
}

// client-go: ListAll; Metadata lister — namespaced list, list.
#[test]
fn li_1_a_list_is_of_all_or_of_one_namespace_and_of_what_is_selected() {
    let pods = lister(&PODS);
    assert_eq!(names(&pods.list()), ["node", "shop/cart", "shop/desk", "shop-2/cart"]);
    let app = |app: &'static str| move |pod: &Object<Json>| pod.label("app") == Some(app);
    assert_eq!(names(&pods.list_where(app("a"))), ["node", "shop/cart", "shop-2/cart"]);
    assert_eq!(names(&pods.namespaced("shop").list()), ["shop/cart", "shop/desk"]);
    assert_eq!(names(&pods.namespaced("shop").list_where(app("a"))), ["shop/cart"]);
    assert!(pods.namespaced("none").list().is_empty());
    assert!(pods.list_where(|_| false).is_empty());
    assert_eq!(pods.namespaced("").list_where(app("b")).len(), 1, "an empty namespace stands for all");
    assert_eq!(pods.namespaced("").get("node").unwrap().name(), "node");
}

#[test]
fn li_2_what_is_listed_is_shared_with_the_cache() {
    let pods = lister(&PODS);
    let cached = pods.cache().get(Some("shop"), "cart").unwrap();
    assert!(pods.get("shop", "cart").unwrap().ptr_eq(&cached));
    assert!(pods.namespaced("shop").list()[0].ptr_eq(&cached));
    assert!(pods.clone().list()[1].ptr_eq(&cached));
}
