//! The result of a command, and the program's exit codes.

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done,
    /// The command failed, or the repository has errors.
    Failed,
    /// Wrong usage of the command line.
    Usage,
    /// `plan --exit-code`: there are changes.
    Changes,
    /// `--exit-code`: changes are held for an approval, a signature, a window or a taken name.
    Held,
}

impl Exit {
    /// Every result, by exit code.
    pub const ALL: [Exit; 5] = [Exit::Done, Exit::Failed, Exit::Usage, Exit::Changes, Exit::Held];

    /// The program's exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Changes => 3,
            Exit::Held => 4,
        }
    }
}
