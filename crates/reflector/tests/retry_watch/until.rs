//! Waiting on a watch.

use reflector::watch::{UntilError, until};

use super::*;

type Condition = Box<dyn FnMut(&Event<Json>) -> Result<bool, std::num::ParseIntError> + Send>;

fn at_least(version: u64) -> Condition {
    Box::new(move |event| Ok(event.version().unwrap().to_string().parse::<u64>()? >= version))
}

fn is_deleted() -> Condition {
    Box::new(|event| Ok(matches!(event, Event::Deleted(_))))
}

/// A watch whose server sends these events and then keeps still.
fn playing(events: Vec<WatchEvent<Json>>) -> RetryWatcher<Json> {
    let (builder, mut server) = builder("1");
    tokio::spawn(async move {
        let stream = server.watch().await.open();
        stream.send(events);
        stream.closed().await;
    });
    builder.start().unwrap()
}

/// client-go: Until
#[tokio::test(start_paused = true)]
async fn conditions_are_met_in_turn() {
    let mut watch =
        playing(vec![added("a", "2"), WatchEvent::Deleted(object("a", "u", "3")), added("b", "4")]);
    let first = until(&mut watch, None, [at_least(2), is_deleted()]).await.unwrap().unwrap();
    assert_eq!(first.to_string(), "DELETED ns/a at version 3");
    // What came after it is still there.
    let next = until(&mut watch, None, [at_least(1)]).await.unwrap().unwrap();
    assert_eq!(next.to_string(), "ADDED ns/b at version 4");
    assert!(until(&mut watch, None, [] as [Condition; 0]).await.unwrap().is_none());
}

/// client-go: UntilMultipleConditions
#[tokio::test(start_paused = true)]
async fn one_event_may_meet_two_conditions() {
    let mut watch = playing(vec![added("a", "2"), added("b", "3")]);
    let conditions = [at_least(2), at_least(1), at_least(2)];
    let event = in_time(until(&mut watch, None, conditions)).await.unwrap().unwrap();
    assert_eq!(event.to_string(), "ADDED ns/a at version 2");
}

/// client-go: UntilMultipleConditionsFail, UntilTimeout
#[tokio::test(start_paused = true)]
async fn a_deadline_tells_the_last_event() {
    let mut watch = playing(vec![added("a", "2"), added("b", "3")]);
    let limit = Duration::from_secs(10);
    let before = Instant::now();
    let error = until(&mut watch, Some(limit), [at_least(2), is_deleted()]).await.unwrap_err();
    assert!(matches!(error, UntilError::Timeout { .. }));
    assert_eq!(before.elapsed().as_secs(), 10);
    assert_eq!(error.last().unwrap().to_string(), "ADDED ns/b at version 3");
    assert_eq!(
        error.to_string(),
        "a condition on letters in namespace ns was not met within 10s; the last event was ADDED ns/b at version 3"
    );
    let error = until(&mut watch, Some(limit), [is_deleted()]).await.unwrap_err();
    assert!(error.to_string().ends_with("the last event was none"), "{error}");
}

/// client-go: UntilErrorCondition
#[tokio::test(start_paused = true)]
async fn an_error_of_a_condition_ends_it_with_the_event() {
    let mut watch = playing(vec![added("a", "2"), added("b", "x"), added("c", "4")]);
    let error = until(&mut watch, None, [at_least(4)]).await.unwrap_err();
    assert!(matches!(error, UntilError::Condition { .. }));
    assert_eq!(error.last().unwrap().to_string(), "ADDED ns/b at version x");
    assert!(error.to_string().contains("invalid digit"), "{error}");
}

/// UN-2: a gap in the history is an error, never passed over in silence.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_watch_ends_it() {
    let mut watch = playing(vec![added("a", "2"), status(410, "Expired", "too old", None)]);
    let error = until(&mut watch, None, [is_deleted()]).await.unwrap_err();
    assert!(matches!(&error, UntilError::Watch { error: RetryWatchError::Expired { .. }, .. }), "{error}");
    assert_eq!(error.last().unwrap().to_string(), "ADDED ns/a at version 2");
    for _ in 0..2 {
        let error = until(&mut watch, None, [is_deleted()]).await.unwrap_err();
        assert!(matches!(&error, UntilError::Closed { last: None, .. }), "{error}");
    }
}

/// `Box<dyn Error>` is no `Error`, and is what many functions give.
#[tokio::test(start_paused = true)]
async fn a_condition_may_fail_with_any_error() {
    let mut watch = playing(vec![added("a", "x"), added("b", "3")]);
    let condition = |event: &Event<Json>| -> Result<bool, Box<dyn std::error::Error>> {
        Ok(event.version().ok_or("no version")?.to_string().parse::<u64>()? > 2)
    };
    let error = until(&mut watch, None, [condition]).await.unwrap_err();
    assert!(matches!(&error, UntilError::Condition { error, .. } if error.is::<std::num::ParseIntError>()));
    assert!(format!("{error:?}").contains("invalid digit"), "{error:?}");
    assert!(until(&mut watch, None, [condition]).await.unwrap().is_some());
}

/// UN-2: every state is seen, also across closes.
#[tokio::test(start_paused = true)]
async fn every_state_is_shown_to_the_condition() {
    let (builder, mut server) = builder("1");
    let mut watch = builder.start().unwrap();
    let mut seen = HashSet::new();
    let all = |event: &Event<Json>| {
        seen.insert(event.version().unwrap().to_string());
        Ok::<_, Infallible>(seen.len() == 100)
    };
    let serve = async {
        for first in (2..).step_by(10) {
            let stream = server.watch().await.open();
            stream.send((first..first + 10).map(|v| added("a", &v.to_string())).collect());
        }
    };
    let event = tokio::select! {
        event = until(&mut watch, None, [all]) => event.unwrap().unwrap(),
        () = serve => unreachable!(),
    };
    assert_eq!(event.version(), Some(&rv("101")));
}
