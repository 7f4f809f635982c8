//! A source's record on the hub, a line break, and the windows of a commit: what is written can be read again, and is
//! written once.

use gitwork::core::name::CommitId;
use gitwork::core::record::{Course, Record, Rules};
use gitwork::core::window::ChangeWindows;

pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let (text, windows) = text.split_once('\n').unwrap_or((text, "{}"));
    let record = match Record::read(text) {
        Ok(record) => record,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    if record.text().len() <= gitwork::limits::RECORD_BYTES_MAX {
        assert_eq!(Record::read(&record.text()).as_ref(), Ok(&record));
    }
    let restored = Record::after_restore(Some(&record), 7);
    assert!(restored.restored && restored.moves >= record.moves.max(7));
    let mut rules = Rules { windows: ChangeWindows::default(), ..record.rules.clone() };
    if let Ok(windows) = serde_yaml::from_str::<ChangeWindows>(windows)
        && windows.problems().is_empty()
    {
        rules.windows = windows;
    }
    let head = CommitId::parse(&"ab".repeat(20));
    for (free, removes) in [(true, true), (true, false), (false, true), (false, false)] {
        let course =
            Course { head, rules: rules.clone(), free, removes, writes: true, ..Course::default() };
        let Some(next) = Record::next(Some(&record), &course) else { continue };
        assert!(next.moves > record.moves || record.moves == u64::MAX);
        assert!(free || next.rules == record.rules, "what is held loosens nothing");
        assert_eq!(next.restored, record.restored, "only a person says that it is well");
        assert!(next.abandoned.is_superset(&record.abandoned));
        assert_eq!(Record::next(Some(&next), &course), None, "it is written once");
        // What a repository may say fits beside what the hub may say.
        let known = Record { rules: Rules::default(), ..next.clone() }.text().len();
        if known <= gitwork::limits::RECORD_BYTES_MAX / 2 && free {
            assert_eq!(Record::read(&next.text()).as_ref(), Ok(&next));
        }
    }
    true
}
