//! Numbers as people read them.

use std::time::Duration;

/// 1234567 as "1,234,567".
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many of `n` in a second, if they took `time`; 0 if no time passed.
pub fn rate(n: u64, time: Duration) -> u64 {
    if time.is_zero() { 0 } else { (n as f64 / time.as_secs_f64()).round() as u64 }
}

/// `n` for each of `of`, with two digits after the point, or "-" if there is none.
pub fn each(n: u64, of: u64) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.2}", n as f64 / of as f64) }
}

/// A time as "1.2 µs", "12.3 µs", "123.4 µs", "12.35 ms" or "1.23 s".
pub fn time(time: Duration) -> String {
    let micros = time.as_nanos() as f64 / 1e3;
    match micros {
        ..1_000.0 => format!("{micros:.1} µs"),
        ..1_000_000.0 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_comma_every_three_digits() {
        let counts = [0, 7, 999, 1000, 65_507, 123_456, 1_234_567, u64::MAX].map(count);
        let read = [
            "0",
            "7",
            "999",
            "1,000",
            "65,507",
            "123,456",
            "1,234,567",
            "18,446,744,073,709,551,615",
        ];
        assert_eq!(counts, read);
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        assert_eq!(rate(5, Duration::ZERO), 0);
        assert_eq!(rate(5, Duration::from_millis(500)), 10);
        assert_eq!((each(5, 0).as_str(), each(5, 2).as_str()), ("-", "2.50"));
    }

    #[test]
    fn a_time_is_read_in_the_unit_that_fits() {
        let nanos = [0, 1_234, 99_900, 123_456, 1_000_000, 12_345_678, 1_234_567_890];
        let read = ["0.0 µs", "1.2 µs", "99.9 µs", "123.5 µs", "1.00 ms", "12.35 ms", "1.23 s"];
        assert_eq!(nanos.map(|nanos| time(Duration::from_nanos(nanos))), read);
    }
}
