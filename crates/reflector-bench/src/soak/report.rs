//! What came out of a soak.

use serde_json::{Value, json};

use super::{
    Options,
    judge::{self, Verdict},
    sample::Sample,
};
use crate::Failure;

/// The comparison in the end.
pub(super) struct Settled {
    /// How long it took after the end of the faults.
    pub(super) seconds: f64,
    /// A sentence for each.
    pub(super) differences: Vec<String>,
}

/// All that is told of a run.
pub(super) struct Outcome {
    /// The server when it stopped.
    pub(super) calm: Sample,
    /// Both processes just before.
    pub(super) last: Sample,
    pub(super) settled: Settled,
    /// What the client had more in the end than at its start.
    pub(super) left: Sample,
    /// None of a run that was too short.
    pub(super) verdicts: Option<Vec<Verdict>>,
}

impl Outcome {
    /// Whatever the run fails for.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if !self.settled.differences.is_empty() {
            wrong.push("the copies differ from the server".to_owned());
        }
        let uneven = self.verdicts.iter().flatten().filter(|verdict| !verdict.is_flat());
        wrong.extend(uneven.map(|verdict| format!("{} is not flat", verdict.name)));
        for what in ["tasks", "fds"] {
            if self.left.get(what) > 0.0 {
                wrong.push(format!("{} {what} are left", self.left.get(what)));
            }
        }
        wrong
    }

    /// Prints the table and the verdict, and fails if something was wrong.
    pub(super) fn tell(&self) -> Result<(), Failure> {
        match &self.verdicts {
            Some(verdicts) => println!("\n{}", judge::table(verdicts)),
            None => println!("too short to be judged: less than {} minutes", judge::SHORTEST.as_secs() / 60),
        }
        let wrong = self.wrong();
        if !wrong.is_empty() {
            return Err(wrong.join("; ").into());
        }
        println!(
            "All copies are equal to the server{}.",
            if self.verdicts.is_some() { ", and all is flat" } else { "" }
        );
        Ok(())
    }

    /// For programs.
    pub(super) fn json(&self, options: &Options) -> Value {
        json!({
            "seconds": options.duration.as_secs_f64(),
            "seed": options.seed,
            "objects": options.objects,
            "rate": options.rate,
            "writes": self.calm.get("writes"),
            "requests": self.calm.get("requests"),
            "faults": self.calm.get("faults"),
            "events": self.last.get("events"),
            "relists": self.last.get("relists"),
            "errors": self.last.get("errors"),
            "came_and_went": self.last.get("lives"),
            "equal_after_seconds": self.settled.seconds,
            "differences": self.settled.differences,
            "tasks_left": self.left.get("tasks"),
            "fds_left": self.left.get("fds"),
            "heap_left_mib": self.left.get("heap_mib"),
            "judged": self.verdicts.as_deref().map(judge::json),
            "wrong": self.wrong(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            calm: Sample::default(),
            last: Sample::default(),
            settled: Settled { seconds: 1.0, differences: Vec::new() },
            left: Sample::default(),
            verdicts: None,
        }
    }

    /// Ten minutes in which the client's tasks become more or not.
    fn verdicts(more: f64) -> Option<Vec<Verdict>> {
        let sample = |second: u32| {
            let mut sample = Sample::default();
            sample.set("client_tasks", 20.0 + more * f64::from(second));
            (Duration::from_secs(second.into()), sample)
        };
        judge::judge(&(0..600).map(sample).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_wrong_passes() {
        assert!(outcome().tell().is_ok());
        assert!(Outcome { verdicts: verdicts(0.0), ..outcome() }.tell().is_ok());
    }

    #[test]
    fn anything_wrong_fails_the_run() {
        let differs = Settled { seconds: 1.0, differences: vec!["a pod is missing".to_owned()] };
        let left = |name: &str| {
            let mut left = Sample::default();
            left.set(name, 1.0);
            left
        };
        let cases = [
            (Outcome { settled: differs, ..outcome() }, "the copies differ from the server"),
            (Outcome { verdicts: verdicts(1.0), ..outcome() }, "client_tasks is not flat"),
            (Outcome { left: left("tasks"), ..outcome() }, "1 tasks are left"),
            (Outcome { left: left("fds"), ..outcome() }, "1 fds are left"),
        ];
        for (outcome, expected) in cases {
            assert_eq!(outcome.tell().unwrap_err().to_string(), expected);
        }
    }
}
