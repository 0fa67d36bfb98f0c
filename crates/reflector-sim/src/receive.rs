//! What arrives at the client becomes facts, by the real code that cuts bodies into objects.

use std::{mem, time::Duration};

use reflector::{
    driver::Fact,
    protocol::Failure,
    source::{ListPart, refused},
    wire::{Status, WatchEvent},
};

use crate::cluster::{
    connection::{Ask, Body, Connection, Cutter, Parcel, Role, Sent},
    object::number,
};

/// What is known of a fact that the reflector itself cannot know.
#[derive(Default)]
pub(crate) struct Note {
    /// The messages of the failures in it.
    pub(crate) failures: Vec<String>,
    /// The versions that it carries.
    pub(crate) versions: Vec<u64>,
    /// What its sender knew.
    pub(crate) sent: Option<Sent>,
}

/// Takes a parcel from a connection. What comes of it is told to the core, in order.
pub(crate) fn receive(connection: &mut Connection, parcel: Parcel) -> Vec<(Fact<Body>, Note)> {
    let mut facts = Vec::new();
    let plain = |fact| (fact, Note::default());
    let role = connection.role;
    match parcel {
        Parcel::Head => {
            connection.opened = true;
            match (&connection.ask, role) {
                (_, Role::Check) => {}
                (Ask::List(_), _) => facts.push(plain(Fact::ListOpened)),
                (Ask::Watch(_), Role::Reopen) => {
                    connection.role = Role::Main;
                    facts.push(plain(Fact::Reopened));
                }
                (Ask::Watch(_), _) => facts.push(plain(Fact::WatchOpened)),
            }
        }
        Parcel::Refusal { code, retry_after, body } => {
            let status = Status::from_body(code, Some("application/json"), body.as_bytes());
            facts.push(fail(connection, refused(&status, retry_after.map(Duration::from_secs))));
        }
        Parcel::Bytes(bytes, sent) => match &mut connection.cutter {
            Cutter::List(cutter) => {
                let mut items = Vec::new();
                match cutter.push(&bytes, &mut items) {
                    Ok(()) if role == Role::Check => {}
                    Ok(()) => facts.push(plain(Fact::ListPart(ListPart::Items(items)))),
                    Err(error) => facts.push(fail(connection, Failure::malformed(error))),
                }
                connection.last_sent = Some(sent);
            }
            Cutter::Watch(cutter) => {
                let mut events = Vec::new();
                match cutter.push(&bytes, &mut events) {
                    Ok(()) => {
                        let note = note_events(&events, sent);
                        facts.push((Fact::Events(events), note));
                    }
                    Err(error) => facts.push(fail(connection, Failure::malformed(error))),
                }
            }
            Cutter::Spent => {}
        },
        Parcel::Reset => facts.push(fail(connection, Failure::transport("connection reset by peer"))),
        Parcel::End => match mem::replace(&mut connection.cutter, Cutter::Spent) {
            Cutter::List(cutter) => match cutter.finish() {
                Ok(end) => {
                    let note = Note {
                        versions: end.version.as_ref().and_then(number).into_iter().collect(),
                        sent: connection.last_sent,
                        ..Note::default()
                    };
                    connection.close();
                    let fact = match role {
                        Role::Check => Fact::Checked(Ok(end.version)),
                        _ => Fact::ListPart(ListPart::End(end)),
                    };
                    facts.push((fact, note));
                }
                Err(error) => facts.push(fail(connection, Failure::malformed(error))),
            },
            Cutter::Watch(cutter) => match cutter.finish() {
                Ok(()) => {
                    connection.close();
                    facts.push(plain(Fact::Ended));
                }
                Err(error) => facts.push(fail(connection, Failure::malformed(error))),
            },
            Cutter::Spent => {}
        },
    }
    facts
}

/// The request of a connection has failed: it is closed.
fn fail(connection: &mut Connection, failure: Failure) -> (Fact<Body>, Note) {
    let note = Note { failures: vec![failure.message().to_owned()], ..Note::default() };
    let (opened, list) = (connection.opened, connection.ask.is_list());
    let fact = match connection.role {
        Role::Check => Fact::Checked(Err(failure)),
        Role::Reopen => Fact::ReopenFailed(failure),
        Role::Main if list => Fact::ListFailed(failure),
        Role::Main if opened => Fact::Broken(failure),
        Role::Main => Fact::WatchFailed(failure),
    };
    connection.close();
    (fact, note)
}

fn note_events(events: &[WatchEvent<Body>], sent: Sent) -> Note {
    let mut note = Note { sent: Some(sent), ..Note::default() };
    for event in events {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.version()
            }
            WatchEvent::Bookmark { version, .. } => version.as_ref(),
            WatchEvent::Invalid(invalid) => invalid.version.as_ref(),
            WatchEvent::Error(status) => {
                note.failures.push(refused(status, None).message().to_owned());
                // What follows an error is not looked at.
                break;
            }
            WatchEvent::Unknown(_) => None,
        };
        note.versions.extend(version.and_then(number));
    }
    note
}
