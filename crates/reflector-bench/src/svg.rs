//! Pictures for the documentation, which are read on light and on dark pages.

use std::fmt::{self, Write as _};

/// The colours, told apart by everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    Blue,
    Grey,
    Orange,
}

/// As a class of the style sheet.
impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blue => "blue",
            Self::Grey => "grey",
            Self::Orange => "orange",
        })
    }
}

/// The beginning of a picture, with its style sheet.
pub(crate) fn begin(width: usize, height: usize) -> String {
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">
<style>text{{fill:#24292f}}rect{{fill:currentColor}}polyline,path{{fill:none;stroke:currentColor;stroke-width:1.2}}.blue{{color:#1f6feb}}.grey{{color:#8c959f}}.orange{{color:#d4722a}}@media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.blue{{color:#58a6ff}}.grey{{color:#6e7681}}.orange{{color:#f0883e}}}}</style>
"#
    )
}

/// What a colour stands for.
pub(crate) fn legend(out: &mut String, x: usize, y: usize, color: Color, text: &str) {
    // Writing into a string cannot fail.
    let _ = writeln!(
        out,
        r#"<rect class="{color}" x="{x}" y="{y}" width="12" height="12"/><text x="{}" y="{}">{text}</text>"#,
        x + 18,
        y + 11,
    );
}

pub(crate) const END: &str = "</svg>\n";
