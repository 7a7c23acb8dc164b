//! The header `grpc-timeout`: how long the caller waits.
//!
//! The caller gives up at that moment, so an answer must be there before: the call's deadline is earlier by a tenth of the
//! time, and by at most [`MARGIN_MAX`]. A partial answer is then on its way while the caller still waits.

use crate::problem::Problem;
use axum::http::HeaderMap;
use std::time::Duration;
use tokio::time::Instant;
use treefold::CallError;

const HEADER: &str = "grpc-timeout";
/// Most digits of its number.
const DIGITS_MAX: usize = 8;
/// Most time between a call's deadline and the end of its caller's patience.
const MARGIN_MAX: Duration = Duration::from_millis(100);

/// The moment at which the caller gives up, if there is one.
pub(super) fn of(headers: &HeaderMap) -> Result<Option<Instant>, Problem> {
    let Some(given) = headers.get(HEADER) else { return Ok(None) };
    let text = given.to_str().unwrap_or("not a text");
    match duration(text) {
        // A time beyond the clock's end is none.
        Some(timeout) => Ok(Instant::now().checked_add(timeout)),
        None => {
            let allowed = "up to eight digits and a unit of H, M, S, m, u, n";
            Err(CallError::bad_field(HEADER, text, allowed).into())
        }
    }
}

fn duration(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > DIGITS_MAX || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The latest deadline of a call whose caller gives up at a moment.
pub(super) fn latest(until: Instant) -> Duration {
    let left = until.saturating_duration_since(Instant::now());
    left - (left / 10).min(MARGIN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_a_number_and_a_unit() {
        let seconds = |text| duration(text).map(|timeout| timeout.as_secs_f64());
        assert_eq!([seconds("2H"), seconds("3M"), seconds("4S")], [Some(7_200.0), Some(180.0), Some(4.0)]);
        assert_eq!([seconds("5m"), seconds("6u"), seconds("700n")], [Some(5e-3), Some(6e-6), Some(7e-7)]);
        for senseless in ["", "S", "5", "123456789S", "-1S", "5x", "5 S", "５S"] {
            assert_eq!(duration(senseless), None, "{senseless}");
        }
    }

    #[test]
    fn call_ends_before_its_caller_gives_up() {
        let left = |ms| latest(Instant::now() + Duration::from_millis(ms)).as_millis();
        assert!((80..=90).contains(&left(100)), "{}", left(100));
        assert!((9_800..=9_900).contains(&left(10_000)), "{}", left(10_000));
        assert_eq!(latest(Instant::now()), Duration::ZERO);
    }
}
