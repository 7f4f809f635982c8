//! Styles of text for terminals.

use std::fmt;

pub use gitwork_api::count::count;

/// Whether text is printed with colours. The owner of the output stream decides; the core does not
/// detect terminals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ColorMode {
    /// Without escape sequences.
    #[default]
    Plain,
    /// With ANSI escape sequences.
    Colored,
}

/// The meaning of a piece of text. Each meaning has the same colour in all printers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextStyle {
    /// An error or a removal.
    Bad,
    /// A warning.
    Warning,
    /// A note, a hint or a path.
    Note,
    /// An addition.
    Good,
    /// Emphasis.
    Strong,
    /// Secondary text: gutters and ids.
    Dim,
}

impl ColorMode {
    /// `text` in the given style; unchanged without colours.
    pub fn styled(self, style: TextStyle, text: impl fmt::Display) -> String {
        use anstyle::{AnsiColor, Style};
        if self == Self::Plain {
            return text.to_string();
        }
        let ansi = match style {
            TextStyle::Bad => AnsiColor::Red.on_default().bold(),
            TextStyle::Warning => AnsiColor::Yellow.on_default().bold(),
            TextStyle::Note => AnsiColor::Cyan.on_default(),
            TextStyle::Good => AnsiColor::Green.on_default(),
            TextStyle::Strong => Style::new().bold(),
            TextStyle::Dim => Style::new().dimmed(),
        };
        format!("{ansi}{text}{ansi:#}")
    }
}
