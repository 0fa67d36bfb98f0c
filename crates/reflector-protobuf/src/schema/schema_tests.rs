use std::collections::HashSet;

use super::*;

#[test]
fn kinds_are_found_by_their_names_and_by_nothing_else() {
    for kind in Kind::all() {
        assert_eq!(Kind::find(kind.api_version(), kind.kind()), Some(kind));
    }
    for (api_version, kind) in
        [("", ""), ("v1", ""), ("v1", "pod"), ("v2", "Pod"), ("meta.k8s.io/v1", "Table")]
    {
        assert_eq!(Kind::find(api_version, kind), None);
    }
    assert_eq!(Kind::all().count(), 327);
}

#[test]
fn messages_and_fields_are_found() {
    for message in Message::all() {
        assert_eq!(Message::find(message.name()), Some(message));
        let numbers: HashSet<u32> = message.fields().map(Field::number).collect();
        for number in 0..300 {
            let found = message.field_by_number(number);
            assert_eq!(found.map(Field::number), numbers.contains(&number).then_some(number));
        }
        for field in message.fields().filter(|field| !field.is_inline()) {
            let found = message.field_by_json_name(field.json_name());
            assert_eq!(found.map(Field::number), Some(field.number()), "{message:?} {field:?}");
        }
        assert!(message.field_by_json_name("").is_none());
    }
}

/// Some fields that were looked up in the `.proto` files of Kubernetes by hand.
#[test]
fn the_facts_are_those_of_kubernetes() {
    let pod = Kind::find("v1", "Pod").unwrap().message();
    assert_eq!(pod.name(), "api.core.v1.Pod");
    let spec = pod.field_by_json_name("spec").unwrap();
    assert_eq!((spec.number(), spec.ty(), spec.shape()), (2, Type::Message, Shape::Single));
    let containers = spec.message().unwrap().field_by_number(2).unwrap();
    assert_eq!((containers.json_name(), containers.shape()), ("containers", Shape::List));
    assert!(!containers.is_omitempty() && !containers.is_pointer());
    let volume = Message::find("api.core.v1.Volume").unwrap();
    let source = volume.field_by_number(2).unwrap();
    assert!(source.is_inline());
    assert_eq!(source.message(), Message::find("api.core.v1.VolumeSource"));
    let replicas =
        Message::find("api.apps.v1.DeploymentSpec").unwrap().field_by_json_name("replicas").unwrap();
    assert!(replicas.is_pointer() && replicas.is_omitempty());
}
