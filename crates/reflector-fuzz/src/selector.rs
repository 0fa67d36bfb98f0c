//! Selectors: read, written and read again, and beside the embedded API server, whose parser was written apart from ours.

use std::{cell::RefCell, str};

use reflector::{FieldSelector, LabelSelector, Object};
use serde_json::Value;

use crate::token::Server;

thread_local! {
    static SERVER: RefCell<Server> = RefCell::new(Server::new());
}

/// Any text as both kinds of selectors.
pub(crate) fn selectors(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let label = text.parse::<LabelSelector>();
    if let Ok(selector) = &label {
        let written = selector.to_string();
        let again: LabelSelector = written.parse().expect("what was written can be read");
        assert_eq!(&again, selector);
        assert_eq!(again.to_string(), written);
    }
    let field = text.parse::<FieldSelector>();
    if let Ok(selector) = &field {
        let written = selector.to_string();
        let again: FieldSelector = written.parse().expect("what was written can be read");
        assert_eq!(&again, selector);
        assert_eq!(again.to_string(), written);
    }
    SERVER.with_borrow_mut(|server| {
        compare(
            server,
            "labelSelector",
            text,
            label.ok().map(|label| move |object: &Object<Value>| label.matches(object.meta())),
        );
        compare(
            server,
            "fieldSelector",
            text,
            field.ok().map(|field| move |object: &Object<Value>| field.matches(object)),
        );
    });
}

/// Both take it and select the same, or both refuse it.
fn compare(server: &mut Server, parameter: &str, text: &str, ours: Option<impl Fn(&Object<Value>) -> bool>) {
    match (server.list(&[(parameter, text)]), ours) {
        (Ok(selected), Some(ours)) => {
            let mut here = server.list(&[]).unwrap()["items"].take();
            here.as_array_mut().unwrap().retain(|item| ours(&Object::from_json(item.to_string()).unwrap()));
            assert_eq!(here, selected["items"]);
        }
        (Err(_), None) => {}
        // Any path may be asked for here; a resource offers few.
        (Err(refusal), Some(_)) if refusal["message"].to_string().contains("is not a known field") => {}
        (Err(refusal), Some(_)) => panic!("only the server refuses `{text}`: {refusal}"),
        (Ok(_), None) => panic!("only the client refuses `{text}`"),
    }
}
