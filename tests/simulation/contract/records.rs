//! The record of a source.

use gitwork_core::plan::record::Record;

use super::*;

pub async fn record_update_requires_the_version_read(case: &Case<'_>) {
    let (hub, source) = (case.hub(), &case.source);
    assert_eq!(hub.record(source).await, Ok(None));
    let first = Record { commit: Some(COMMIT), record_generation: 1, ..Record::default() };
    let stored = hub.set_record(source, &first, None).await.unwrap();
    assert_eq!(hub.record(source).await, Ok(Some(stored.clone())));
    assert_eq!(stored.record, first);

    // Another process assumes that there is no record, and then that the first one is current.
    let other = Record { record_generation: 7, abandoned: [COMMIT].into(), ..Record::default() };
    let answer = hub.set_record(source, &other, None).await;
    assert!(matches!(answer, Err(HubError::Stale { .. })), "{answer:?}");
    let second =
        Record { record_generation: 2, restored: true, restored_generation: Some(2), ..first };
    let now = hub.set_record(source, &second, Some(&stored)).await.unwrap();
    let answer = hub.set_record(source, &other, Some(&stored)).await;
    assert!(matches!(answer, Err(HubError::Stale { .. })), "{answer:?}");
    assert_eq!(hub.record(source).await, Ok(Some(now.clone())));
    assert_eq!(now.record, second);

    let another = SourceId::parse("contract-without-record").unwrap();
    assert_eq!(hub.record(&another).await, Ok(None), "each source has its own");
    assert_eq!(
        hub.directives(&another).await,
        Ok(Default::default()),
        "no operator has requested anything"
    );
}
