//! What is written of any value that the table allows is read again as that value.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::{
    from_message,
    schema::{Field, Shape, Type},
};

/// Decisions, which run out: all further ones are 0, the smallest.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn of(&mut self, count: u8) -> u8 {
        self.0.next().map_or(0, |choice| choice % count)
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::from(self.of(of.len() as u8))].clone()
    }
}

/// How deep schemas lie within each other: what is around them has to fit into the depth that can be read, too.
const DEPTH: u8 = 30;

fn object(choices: &mut Choices<'_>, message: Message, depth: u8) -> Value {
    let mut object = Map::new();
    members(choices, message, depth, &mut object);
    object.into()
}

fn members(choices: &mut Choices<'_>, message: Message, depth: u8, object: &mut Map<String, Value>) {
    for field in message.fields() {
        if field.is_inline() {
            members(choices, field.message().unwrap(), depth, object);
        } else if depth > 0 && choices.of(3) > 0 {
            let count = 1 + choices.of(3);
            let value = match field.shape() {
                // Zeros are kept where the field is a pointer, and dropped or filled in elsewhere.
                Shape::Single => single(choices, message, field, depth - 1, !field.is_pointer()),
                Shape::List => {
                    (0..count).map(|_| single(choices, message, field, depth - 1, false)).collect::<Value>()
                }
                Shape::Map => (0..count)
                    .map(|_| (text(choices, false), single(choices, message, field, depth - 1, false)))
                    .collect::<Map<_, _>>()
                    .into(),
            };
            object.insert(field.json_name().to_owned(), value);
        }
    }
}

fn text(choices: &mut Choices<'_>, not_empty: bool) -> String {
    let long = "x".repeat(130);
    let texts = ["a", "", "b", "\u{e4}\"\\\n\0/", &long, "z.y/x"];
    let text = choices.one(&texts);
    if not_empty && text.is_empty() { "c".to_owned() } else { text.to_owned() }
}

fn single(choices: &mut Choices<'_>, message: Message, field: Field, depth: u8, not_zero: bool) -> Value {
    let sure =
        |value: Value, zero: Value, other: Value| if not_zero && value == zero { other } else { value };
    match field.ty() {
        Type::Bool => sure(choices.one(&[true, false]).into(), false.into(), true.into()),
        Type::Int32 => {
            sure(choices.one(&[0, 1, -1, 127, 128, i32::MAX, i32::MIN]).into(), 0.into(), 7.into())
        }
        Type::Int64 => sure(choices.one(&[0, 1, -1, 300, i64::MAX, i64::MIN]).into(), 0.into(), 7.into()),
        Type::Double => {
            choices.one(&[json!(1.5), json!(0), json!(-3), json!(0.1), json!(1e300), json!(5e-324)])
        }
        Type::String => text(choices, not_zero).into(),
        Type::Bytes => sure(choices.one(&["", "AA==", "/+8="]).into(), "".into(), "AAAA".into()),
        Type::Message => object(choices, field.message().unwrap(), depth),
        Type::Time => {
            choices.one(&["1970-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]).into()
        }
        Type::MicroTime => {
            choices.one(&["1970-01-01T00:00:00.000000Z", "1969-12-31T23:59:59.999999Z"]).into()
        }
        Type::Quantity => choices.one(&["100m", "1Gi", "0", ""]).into(),
        Type::IntOrString => choices.one(&[json!(1), json!(0), json!(-1), json!("http"), json!("")]),
        Type::RawExtension | Type::Json => choices.one(&[
            json!({}),
            json!([]),
            json!({"a b": [1, -2.5, "x\" y", null, true], "c": {"d": {}}}),
            json!(""),
            json!(0),
            json!(false),
        ]),
        Type::Strings => (0..choices.of(3)).map(|_| Value::from(text(choices, false))).collect(),
        Type::SchemaOrBool => match choices.of(3) {
            0 => true.into(),
            1 => false.into(),
            _ => object(choices, message, depth),
        },
        Type::SchemaOrArray => match choices.of(3) {
            0 => object(choices, message, depth),
            count => (0..count).map(|_| object(choices, message, depth)).collect(),
        },
        Type::SchemaOrStrings => match choices.of(3) {
            0 => object(choices, message, depth),
            count => (0..count).map(|_| Value::from(text(choices, false))).collect(),
        },
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => *value == 0.into(),
        // A quantity.
        Value::String(text) => text.is_empty() || text == "0",
        Value::Array(_) => false,
        Value::Object(members) => members.values().all(is_zero),
    }
}

fn field(message: Message, name: &str) -> Option<(Message, Field)> {
    let own = message.field_by_json_name(name).map(|field| (message, field));
    let mut embedded = message.fields().filter(|field| field.is_inline()).filter_map(Field::message);
    own.or_else(|| embedded.find_map(|inner| self::field(inner, name)))
}

/// All that was written is there, and beyond that only zeros: null for pointers.
fn assert_same(message: Message, written: &Value, read: &Value) {
    let (Value::Object(written), Value::Object(read)) = (written, read) else {
        panic!("{message:?}: {written} became {read}");
    };
    for (name, value) in read.iter().filter(|(name, _)| !written.contains_key(*name)) {
        let (_, field) = field(message, name).unwrap();
        let filled_in =
            if field.is_pointer() { !field.is_omitempty() && value.is_null() } else { is_zero(value) };
        assert!(filled_in, "{message:?} {name}: {value}");
    }
    for (name, value) in written {
        let read = read.get(name).unwrap_or_else(|| panic!("{message:?} {name}: {value} is lost"));
        let (message, field) = field(message, name).unwrap();
        match (field.shape(), value, read) {
            (Shape::Single, value, read) => assert_same_single(message, field, value, read),
            (Shape::List, Value::Array(written), Value::Array(read)) => {
                assert_eq!(written.len(), read.len(), "{message:?} {name}");
                for (value, read) in written.iter().zip(read) {
                    assert_same_single(message, field, value, read);
                }
            }
            (Shape::Map, Value::Object(written), Value::Object(read)) => {
                // In whatever order: a feature of serde_json decides which one a map has.
                assert_eq!(written.len(), read.len(), "{message:?} {name}");
                for (key, value) in written {
                    let read = read.get(key).unwrap_or_else(|| panic!("{message:?} {name}: {key} is lost"));
                    assert_same_single(message, field, value, read);
                }
            }
            _ => panic!("{message:?} {name}: {value} became {read}"),
        }
    }
}

fn assert_same_single(message: Message, field: Field, written: &Value, read: &Value) {
    match (field.ty(), written, read) {
        (Type::Message, ..) => assert_same(field.message().unwrap(), written, read),
        (Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings, Value::Object(_), _) => {
            assert_same(message, written, read);
        }
        (Type::SchemaOrArray, Value::Array(written), Value::Array(read)) => {
            assert_eq!(written.len(), read.len(), "{message:?} {field:?}");
            written.iter().zip(read).for_each(|(written, read)| assert_same(message, written, read));
        }
        _ => assert_eq!(written, read, "{message:?} {field:?}"),
    }
}

fn check(message: Message, choices: &[u8], depth: u8) {
    let value = object(&mut Choices(choices.iter()), message, depth);
    let bytes = write(message, value.to_string().as_bytes()).unwrap();
    let read: Value =
        from_message(message, &bytes).unwrap_or_else(|error| panic!("{message:?} {value}: {error}"));
    assert_same(message, &value, &read);
    // What was filled in is what would have been written anyway.
    let again = write(message, read.to_string().as_bytes()).unwrap();
    assert!(again == bytes, "{message:?} {value}");
}

/// Numbers in no order.
fn numbers(seed: u64, count: usize) -> Vec<u8> {
    let step = |state: &u64| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    };
    std::iter::successors(Some(seed), step).skip(1).take(count).map(|state| (state >> 56) as u8).collect()
}

#[test]
fn every_message_comes_back() {
    for (seed, message) in (0..).zip(Message::all()) {
        for count in [0, 10, 100, 1000] {
            let choices = numbers(seed * 4 + count as u64, count);
            check(message, &choices, DEPTH);
            // Broad rather than deep.
            check(message, &choices, 2);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_come_back(
        which: prop::sample::Index, choices in prop::collection::vec(any::<u8>(), 0..400), depth in 1..DEPTH,
    ) {
        let messages: Vec<_> = Message::all().collect();
        check(messages[which.index(messages.len())], &choices, depth);
    }

    #[test]
    fn no_text_makes_it_panic(text: String, cut: prop::sample::Index, flip: prop::sample::Index, to: u8) {
        let pod = Kind::find("v1", "Pod").unwrap();
        let _ = from_json(pod, text.as_bytes());
        let choices = numbers(cut.index(1000) as u64, 300);
        let mut json = object(&mut Choices(choices.iter()), pod.message(), DEPTH).to_string().into_bytes();
        json.truncate(cut.index(json.len() + 1));
        if !json.is_empty() {
            let at = flip.index(json.len());
            json[at] = to;
        }
        let _ = from_json(pod, &json);
    }
}
