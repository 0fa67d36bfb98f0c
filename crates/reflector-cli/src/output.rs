//! The only place that writes to the terminal.
//!
//! stdout has what was asked for, stderr has what is said about it. Colours are written always, and taken out again
//! where they are not wanted.

use std::io::{self, BufWriter, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

use crate::{args::When, error::Error};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const RED: Style = AnsiColor::Red.on_default();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();

pub(crate) fn set_color(when: When) {
    let choice = match when {
        // What `NO_COLOR`, `CLICOLOR_FORCE`, `TERM` and the kind of stream say.
        When::Auto => ColorChoice::Auto,
        When::Always => ColorChoice::Always,
        When::Never => ColorChoice::Never,
    };
    choice.write_global();
}

pub(crate) fn stderr_has_color() -> bool {
    AutoStream::choice(&io::stderr()) != ColorChoice::Never
}

/// Whether stderr can be redrawn.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How many characters a line of the terminal at stderr has.
pub(crate) fn stderr_width() -> usize {
    const USUAL: usize = 80;
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stderr())
        && size.ws_col > 0
    {
        return usize::from(size.ws_col);
    }
    USUAL
}

/// stdout, for much output: flush it where somebody may wait for it.
pub(crate) fn stdout() -> impl Write + Send {
    BufWriter::with_capacity(64 * 1024, AutoStream::auto(io::stdout()))
}

/// Writes all of it to stdout.
pub(crate) fn print(text: &[u8]) -> Result<(), Error> {
    let mut stdout = stdout();
    stdout.write_all(text).and_then(|()| stdout.flush()).map_err(|error| Error::stdout(&error))
}

/// One line on stderr.
pub(crate) fn note(line: &str) {
    // One write, so that lines stay whole; where stderr is closed there is nobody to tell.
    let _ = AutoStream::auto(io::stderr()).write_all(format!("{line}\n").as_bytes());
}

/// Text on stderr without a line end, for redrawing.
pub(crate) fn draw(text: &str) {
    let mut stderr = AutoStream::auto(io::stderr());
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

pub(crate) fn error(error: &Error) {
    let (Error::Usage(message) | Error::Failed(message)) = error else { return };
    let red = RED.bold();
    note(&format!("{red}error:{red:#} {}", one_line(message)));
}

/// Texts of servers may hold line ends and escape sequences, which must not reach a terminal.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(one_line("a\r\n\n b\u{1b}[31mred\u{7}\tc"), "a b [31mred c");
    }
}
