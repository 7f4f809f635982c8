//! A source's record on the hub, a line break, and the windows of a commit. A written record can be
//! read again, and is written once.

use gitwork_core::config::source_rules::SourceRules;
use gitwork_core::config::window::ChangeWindows;
use gitwork_core::model::name::CommitId;
use gitwork_core::plan::record::{Record, RecordInputs};

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
    if record.text().len() <= gitwork_core::limits::RECORD_BYTES_MAX {
        assert_eq!(Record::read(&record.text()).as_ref(), Ok(&record));
    }
    let restored = Record::after_restore(Some(&record), 7);
    assert!(restored.restored && restored.record_generation >= record.record_generation.max(7));
    let mut rules = SourceRules { windows: ChangeWindows::default(), ..record.rules.clone() };
    if let Ok(windows) = serde_yaml::from_str::<ChangeWindows>(windows)
        && windows.problems().is_empty()
    {
        rules.windows = windows;
    }
    let head = CommitId::parse(&"ab".repeat(20));
    for (nothing_is_held, applies) in [(true, true), (true, false), (false, true), (false, false)] {
        let inputs = RecordInputs {
            head,
            rules: rules.clone(),
            nothing_is_held,
            applies,
            is_signed: applies,
            writes: true,
            ..RecordInputs::default()
        };
        let Some(next) = Record::next(Some(&record), &inputs) else { continue };
        assert!(
            next.record_generation > record.record_generation
                || record.record_generation == u64::MAX
        );
        assert!(nothing_is_held || next.rules == record.rules, "what is held loosens nothing");
        assert_eq!(next.restored, record.restored, "only an operator confirms a restored hub");
        assert!(next.abandoned.is_superset(&record.abandoned));
        assert_eq!(Record::next(Some(&next), &inputs), None, "it is written once");
        // The rules of a repository fit beside those of the hub.
        let known = Record { rules: SourceRules::default(), ..next.clone() }.text().len();
        if known <= gitwork_core::limits::RECORD_BYTES_MAX / 2 && nothing_is_held {
            assert_eq!(Record::read(&next.text()).as_ref(), Ok(&next));
        }
    }
    true
}
