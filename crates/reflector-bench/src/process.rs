//! Processes of this program, told what to do line by line.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc,
};

use crate::Failure;

/// A process that answers each line with a line. Killed when dropped.
pub(crate) struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(arguments: &[&str]) -> Result<Self, Failure> {
        Self::start_with(arguments, &[])
    }

    /// With some variables in its environment.
    pub(crate) fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut child = Command::new(env::current_exe()?)
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().ok_or("no input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, orders, answers })
    }

    /// The next line that it prints.
    pub(crate) fn answer(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("a measured process ended early".into());
        }
        Ok(line.trim_end().to_owned())
    }

    pub(crate) fn ask(&mut self, order: &str) -> Result<String, Failure> {
        writeln!(self.orders, "{order}")?;
        self.orders.flush()?;
        self.answer()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One thread, so that nobody is helped by an idle core.
pub(crate) fn one_thread() -> Result<Runtime, Failure> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// The orders that the parent sends to this process.
pub(crate) fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
