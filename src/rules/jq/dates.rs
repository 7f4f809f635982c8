//! Dates of jq, as gojq has them: in UTC, and without the functions that need a clock or the time
//! zone of the machine. Formats have no flags, widths and colons.

use super::budget::StepBudget;
use super::item::{Stop, failed};
use super::value::JqValue;

const DAY: i64 = 86_400;
/// Years and seconds beyond these are errors.
const YEAR_MAX: f64 = 999_999.0;
const SECONDS_MAX: f64 = 3e13;
/// The first second of the year 1, which Go takes for no time.
const FIRST_SECOND: i64 = -62_135_596_800;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A date and a time of day, in UTC.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CivilTime {
    year: i64,
    /// From 1.
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanosecond: i64,
}

/// Days from 1970-01-01 to a date. Months and days may be out of range.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = (year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12) + 1);
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

impl CivilTime {
    fn of_seconds(seconds: i64, nanosecond: i64) -> Self {
        let (days, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        // A year that is not later, then the last one that begins before the day.
        let mut year = 1970 + days.div_euclid(366) - i64::from(days < 0);
        year += (days - days_from_civil(year, 1, 1)).div_euclid(366);
        while days_from_civil(year + 1, 1, 1) <= days {
            year += 1;
        }
        let month = (1..=12).rev().find(|month| days_from_civil(year, *month, 1) <= days);
        let month = month.unwrap_or(1);
        let day = days - days_from_civil(year, month, 1) + 1;
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        Self { year, month, day, hour, minute, second, nanosecond }
    }

    /// Seconds since 1970. Every field may be out of range.
    fn seconds(&self) -> i64 {
        let Self { year, month, day, hour, minute, second, .. } = *self;
        days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second
    }

    fn weekday(&self) -> i64 {
        (self.seconds().div_euclid(DAY) + 4).rem_euclid(7)
    }

    /// From 1.
    fn year_day(&self) -> i64 {
        self.seconds().div_euclid(DAY) - days_from_civil(self.year, 1, 1) + 1
    }

    /// The year and the number of the week that has this day's Thursday.
    fn iso_week(&self) -> (i64, i64) {
        let thursday = self.seconds() + (3 - (self.weekday() + 6) % 7) * DAY;
        let thursday = Self::of_seconds(thursday, 0);
        (thursday.year, (thursday.year_day() - 1) / 7 + 1)
    }

    #[expect(clippy::cast_precision_loss, reason = "gojq computes with floats, too")]
    fn broken_down(&self) -> Result<JqValue, Stop> {
        let second = self.second as f64 + self.nanosecond as f64 / 1e9;
        let Self { year, month, day, hour, minute, .. } = *self;
        let before = [year, month - 1, day, hour, minute].map(JqValue::Integer);
        let after = [self.weekday(), self.year_day() - 1].map(JqValue::Integer);
        let fields = before.into_iter().chain([JqValue::number(second)]).chain(after);
        Ok(JqValue::list(fields.collect())?)
    }

    #[expect(clippy::cast_precision_loss, reason = "gojq computes with floats, too")]
    fn epoch(&self) -> JqValue {
        JqValue::number(self.seconds() as f64 + self.nanosecond as f64 / 1e9)
    }
}

/// A function about dates.
pub fn date_function(
    budget: &StepBudget,
    name: &str,
    input: &JqValue,
    values: &[JqValue],
) -> Result<JqValue, Stop> {
    match (name, values) {
        ("gmtime", []) => of_epoch(input)?.broken_down(),
        ("mktime", []) => Ok(of_fields(input)?.epoch()),
        ("strftime", [JqValue::Text(format)]) => {
            let time = match input {
                JqValue::List(_) => of_fields(input)?,
                _ => of_epoch(input)?,
            };
            budget.charge(1 + format.len())?;
            formatted(&time, format).map(JqValue::text)
        }
        ("strptime", [JqValue::Text(format)]) => {
            let JqValue::Text(text) = input else { return failed("strptime needs a string") };
            budget.charge(1 + format.len() + text.len() / 16)?;
            let parser = Parser { rest: text, offset: 0, is_afternoon: false, year_day: 0 };
            let time = parser.parse(format)?;
            if time.seconds() == FIRST_SECOND && time.nanosecond == 0 {
                return failed("this date is none");
            }
            // As gojq does, whose fractions before 1970 are one second late.
            of_epoch(&time.epoch())?.broken_down()
        }
        _ => failed(format!("{name} needs a format that is a string")),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn of_epoch(value: &JqValue) -> Result<CivilTime, Stop> {
    match value.as_float() {
        Some(seconds) if seconds.abs() <= SECONDS_MAX => {
            let nanosecond = ((seconds - seconds.floor()) * 1e9) as i64;
            Ok(CivilTime::of_seconds(seconds as i64, nanosecond))
        }
        Some(_) => failed("a time is out of range"),
        None => failed(format!("a time must be a number, and this is {}", value.kind())),
    }
}

/// The time of an array of year, month from 0, day, hour, minute and second. Missing ones are 0.
#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn of_fields(value: &JqValue) -> Result<CivilTime, Stop> {
    let JqValue::List(list) = value else { return failed("a broken down time must be an array") };
    let mut fields = [0; 8];
    let mut nanosecond = 0;
    for (index, (field, item)) in fields.iter_mut().zip(&list.content).enumerate() {
        let Some(number) = item.as_float().filter(|number| number.abs() <= YEAR_MAX) else {
            return failed("a broken down time must have numbers");
        };
        *field = number as i64;
        if index == 5 {
            nanosecond = ((number - number.floor()) * 1e9) as i64;
        }
    }
    let [year, month, day, hour, minute, second, ..] = fields;
    let month = month + 1;
    let time = CivilTime { year, month, day, hour, minute, second, nanosecond };
    Ok(CivilTime::of_seconds(time.seconds(), nanosecond))
}

/// The directives that a directive stands for.
fn composition(directive: char) -> Option<&'static str> {
    Some(match directive {
        'c' => "%a %b %e %H:%M:%S %Y",
        'D' | 'x' => "%m/%d/%y",
        'F' => "%Y-%m-%d",
        'R' => "%H:%M",
        'r' => "%I:%M:%S %p",
        'T' | 'X' => "%H:%M:%S",
        'v' => "%e-%b-%Y",
        '+' => "%a %b %e %H:%M:%S %Z %Y",
        _ => return None,
    })
}

fn unsupported<T>(directive: Option<char>) -> Result<T, Stop> {
    match directive {
        Some(directive) => failed(format!("the format %{directive} is not supported")),
        None => failed("a format ends with %"),
    }
}

fn formatted(time: &CivilTime, format: &str) -> Result<String, Stop> {
    let mut text = String::with_capacity(2 * format.len());
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let Some(directive) = rest.next() else { return unsupported(None) };
        match composition(directive) {
            Some(parts) => text.push_str(&formatted(time, parts)?),
            None => text.push_str(&directive_text(time, directive)?),
        }
    }
    Ok(text)
}

fn directive_text(time: &CivilTime, directive: char) -> Result<String, Stop> {
    let CivilTime { year, month, day, hour, minute, second, nanosecond } = *time;
    let name = |all: &[&'static str], index: i64| {
        usize::try_from(index).ok().and_then(|index| all.get(index).copied()).unwrap_or_default()
    };
    let of_twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let weekday = time.weekday();
    let two = |number: i64| format!("{number:02}");
    Ok(match directive {
        'Y' => format!("{year:04}"),
        'y' => two(year % 100),
        'C' => two(year / 100),
        'G' => format!("{:04}", time.iso_week().0),
        'g' => two(time.iso_week().0 % 100),
        'V' => two(time.iso_week().1),
        'U' => two((time.year_day() + 6 - weekday) / 7),
        'W' => two((time.year_day() + if weekday > 0 { 7 - weekday } else { 0 }) / 7),
        'm' => two(month),
        'B' => name(&MONTHS, month - 1).to_owned(),
        'b' | 'h' => name(&MONTHS, month - 1).chars().take(3).collect(),
        'A' => name(&WEEKDAYS, weekday).to_owned(),
        'a' => name(&WEEKDAYS, weekday).chars().take(3).collect(),
        'w' => weekday.to_string(),
        'u' => (if weekday == 0 { 7 } else { weekday }).to_string(),
        'd' => two(day),
        'e' => format!("{day:2}"),
        'j' => format!("{:03}", time.year_day()),
        'H' => two(hour),
        'k' => format!("{hour:2}"),
        'I' => two(of_twelve),
        'l' => format!("{of_twelve:2}"),
        'p' => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
        'P' => (if hour < 12 { "am" } else { "pm" }).to_owned(),
        'M' => two(minute),
        'S' => two(second),
        's' => time.seconds().to_string(),
        'f' => format!("{:06}", nanosecond / 1_000),
        'Z' => "UTC".to_owned(),
        'z' => "+0000".to_owned(),
        't' => "\t".to_owned(),
        'n' => "\n".to_owned(),
        '%' => "%".to_owned(),
        other => return unsupported(Some(other)),
    })
}

/// Reads a text by a format.
struct Parser<'t> {
    rest: &'t str,
    /// Seconds that the text's zone is before UTC.
    offset: i64,
    is_afternoon: bool,
    /// The day of the year, which counts without a day of a month.
    year_day: i64,
}

impl Parser<'_> {
    fn parse(mut self, format: &str) -> Result<CivilTime, Stop> {
        let mut time = CivilTime {
            year: 1900,
            month: 1,
            day: 0,
            hour: 0,
            minute: 0,
            second: 0,
            nanosecond: 0,
        };
        self.read(format, &mut time)?;
        if !self.rest.is_empty() {
            return failed("a date has more text than its format");
        }
        // As in gojq, a day that the month does not have is one of the next month.
        match (time.day, self.year_day) {
            (0, 0) => time.day = 1,
            (0, day) => (time.month, time.day) = (1, day),
            _ => {}
        }
        if self.is_afternoon {
            time.hour += 12;
        }
        Ok(CivilTime::of_seconds(time.seconds() - self.offset, time.nanosecond))
    }

    fn read(&mut self, format: &str, time: &mut CivilTime) -> Result<(), Stop> {
        let mut format = format.chars();
        while let Some(character) = format.next() {
            if character != '%' {
                self.literal(character)?;
                continue;
            }
            let Some(directive) = format.next() else { return unsupported(None) };
            match composition(directive) {
                Some(parts) => self.read(parts, time)?,
                None => self.directive(directive, time)?,
            }
        }
        Ok(())
    }

    fn directive(&mut self, directive: char, time: &mut CivilTime) -> Result<(), Stop> {
        match directive {
            'Y' => time.year = self.number(4, 0, 9_999)?,
            'y' => {
                let year = self.number(2, 0, 99)?;
                time.year = year + if year < 69 { 2_000 } else { 1_900 };
            }
            'm' => time.month = self.number(2, 1, 12)?,
            'B' => time.month = self.name(&MONTHS, usize::MAX)?,
            'b' | 'h' => time.month = self.name(&MONTHS, 3)?,
            // The day of the week follows from the date.
            'A' => drop(self.name(&WEEKDAYS, usize::MAX)?),
            'a' => drop(self.name(&WEEKDAYS, 3)?),
            'd' => time.day = self.number(2, 1, 31)?,
            'e' => {
                self.padding();
                time.day = self.number(2, 1, 31)?;
            }
            'j' => self.year_day = self.number(3, 1, 366)?,
            'H' => time.hour = self.number(2, 0, 23)?,
            'k' => {
                self.padding();
                time.hour = self.number(2, 0, 23)?;
            }
            'I' => time.hour = self.number(2, 1, 12)? % 12,
            'l' => {
                self.padding();
                time.hour = self.number(2, 1, 12)? % 12;
            }
            'p' | 'P' => self.is_afternoon = self.name(&["AM", "PM"], usize::MAX)? == 2,
            'M' => time.minute = self.number(2, 0, 59)?,
            'S' => time.second = self.number(2, 0, 60)?,
            's' => *time = CivilTime::of_seconds(self.number(10, 0, 9_999_999_999)?, 0),
            'f' => {
                let before = self.rest.len();
                let digits = self.number(6, 0, 999_999)?;
                let missing = u32::try_from(6 - (before - self.rest.len())).unwrap_or_default();
                time.nanosecond = digits * 10_i64.pow(missing) * 1_000;
            }
            'z' => self.offset = self.zone()?,
            'Z' if self.rest.starts_with("UTC") => self.rest = &self.rest[3..],
            't' | 'n' => self.spaces()?,
            '%' => self.literal('%')?,
            other => return unsupported(Some(other)),
        }
        Ok(())
    }

    fn literal(&mut self, expected: char) -> Result<(), Stop> {
        match self.rest.strip_prefix(expected) {
            Some(rest) => self.rest = rest,
            None => return failed(format!("a date has no {expected:?} where its format has it")),
        }
        Ok(())
    }

    fn padding(&mut self) {
        self.rest = self.rest.strip_prefix(' ').unwrap_or(self.rest);
    }

    fn spaces(&mut self) -> Result<(), Stop> {
        let rest = self.rest.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
        if rest.len() == self.rest.len() {
            return failed("a date has no space where its format has it");
        }
        self.rest = rest;
        Ok(())
    }

    fn number(&mut self, digits: usize, least: i64, most: i64) -> Result<i64, Stop> {
        let length = self.rest.bytes().take(digits).take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(length);
        match number.parse() {
            Ok(number) if (least..=most).contains(&number) => {
                self.rest = rest;
                Ok(number)
            }
            _ => failed("a date has no number where its format has it"),
        }
    }

    /// The position from 1 of the name with which the text goes on. `letters`: how many of the name
    /// are written.
    fn name(&mut self, names: &[&str], letters: usize) -> Result<i64, Stop> {
        for (position, name) in (1..).zip(names) {
            let name = name.get(..letters.min(name.len())).unwrap_or_default();
            let text = self.rest.get(..name.len()).unwrap_or_default();
            if text.eq_ignore_ascii_case(name) {
                self.rest = self.rest.get(name.len()..).unwrap_or_default();
                return Ok(position);
            }
        }
        failed("a date has no name where its format has it")
    }

    /// `Z`, `+hh`, `+hhmm` or `+hh:mm`.
    fn zone(&mut self) -> Result<i64, Stop> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let sign = match self.rest.chars().next() {
            Some('+') => 1,
            Some('-') => -1,
            _ => return failed("a date has no zone where its format has it"),
        };
        self.rest = self.rest.get(1..).unwrap_or_default();
        let two_digits =
            |text: &str| text.len() >= 2 && text.bytes().take(2).all(|b| b.is_ascii_digit());
        if !two_digits(self.rest) {
            return failed("a date has no zone where its format has it");
        }
        let hours = self.number(2, 0, 23)?;
        let minutes = self.rest.strip_prefix(':').unwrap_or(self.rest);
        let minutes = if two_digits(minutes) {
            self.rest = minutes;
            self.number(2, 0, 59)?
        } else {
            0
        };
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::delete;
    use super::super::error::JqError;

    /// Whether an expression gives a value. `None` for an error.
    fn gives(expression: &str, value: &Value) -> Option<bool> {
        let condition = format!(".spec | select(null | {expression} == {value})");
        match delete(&condition, json!({"spec": 1, "a": 1})) {
            Ok(left) => Some(left == json!({"a": 1})),
            Err(JqError::Evaluation) => None,
            Err(other) => panic!("{expression}: {other}"),
        }
    }

    /// Times that are out of range, and years before 0, of which gojq makes invalid texts. They are
    /// errors, or years with a sign.
    const LEFT_OUT: [&str; 5] = [
        "1e300 | todate",
        "1e300 | gmtime",
        "1e300 | gmtime | mktime",
        "[] | strftime(\"%F %T\")",
        "[-5,0,1] | strftime(\"%F %T\")",
    ];

    /// `tests/jq-dates` has the results of gojq.
    #[test]
    fn dates_are_those_of_ocms_agent() {
        let table = include_str!("../../../tests/jq-dates/table.json");
        let table: Vec<(String, Value)> = serde_json::from_str(table).unwrap();
        assert!(table.len() > 300);
        let is_wrong = |(expression, value): &&(String, Value)| {
            let expected = if value.is_null() { None } else { Some(true) };
            !LEFT_OUT.contains(&expression.as_str()) && gives(expression, value) != expected
        };
        let wrong: Vec<_> = table.iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), table.len());
    }

    #[test]
    fn formats_that_are_not_supported_are_errors() {
        for format in ["%-d", "%5Y", "%^a", "%:z", "%Q", "%", "%é"] {
            assert_eq!(gives(&format!("0 | strftime({format:?})"), &json!("")), None, "{format}");
        }
    }

    #[test]
    fn every_date_ends_and_stays_in_range() {
        for input in ["1e300", "-1e300", "nan", "infinite", "[1e18]", "[999999,999999]", "\"é\""] {
            for function in ["gmtime", "mktime", "todate", "strftime(\"%c\")", "fromdate"] {
                let _ends = gives(&format!("{input} | {function}"), &json!(0));
            }
        }
    }
}
