//! Change windows: `(windows, now) -> open, or closed until`. Pure: time zones come in as values.
//!
//! A window begins and ends at times of the wall clock of its zone. Where a clock change skips such
//! a time, it is the time as much later as the clock jumps; where one comes twice, it is the first
//! (RFC 5545, section 3.3.5).

mod calendar;
mod closed;
mod fields;
#[cfg(test)]
mod tests;

pub use closed::{Closed, closed};
pub use fields::{ChangeWindow, ChangeWindows, Day, WindowProblem};
