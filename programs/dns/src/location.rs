//! LOC records: a place on Earth (RFC 1876).

use crate::words::{Words, number};

/// Thousandths of a second in a degree.
const DEGREE: u32 = 3_600_000;

/// Reads latitude, longitude, altitude, and up to three sizes in metres.
pub fn read(words: &mut Words<'_>, out: &mut Vec<u8>) -> Result<(), String> {
    let latitude = angle(words, 90 * DEGREE, ["N", "S"])?;
    let longitude = angle(words, 180 * DEGREE, ["E", "W"])?;
    // Counted from 100 km below the surface.
    let altitude = words.take("an altitude in metres", |word| {
        let text = word.text();
        let altitude = match text.strip_prefix('-') {
            Some(depth) => 10_000_000_u64.checked_sub(centimetres(depth)?)?,
            None => 10_000_000_u64.checked_add(centimetres(&text)?)?,
        };
        u32::try_from(altitude).ok()
    })?;
    // The size of the place, and the precision across and upwards.
    let mut sizes = [0x12, 0x16, 0x13];
    for size in &mut sizes {
        if words.is_empty() {
            break;
        }
        // The digit and the number of its zeros.
        *size = words.take("metres, as one digit and zeros", |word| {
            let (mut digit, mut exponent) = (centimetres(&word.text())?, 0);
            while digit >= 10 && digit % 10 == 0 {
                (digit, exponent) = (digit / 10, exponent + 1);
            }
            // RFC 1876: both are decimal digits.
            (digit < 10 && exponent < 10).then_some((digit as u8) << 4 | exponent)
        })?;
    }
    out.push(0);
    out.extend(sizes);
    out.extend([latitude, longitude, altitude].map(u32::to_be_bytes).as_flattened());
    Ok(())
}

/// Degrees, and perhaps minutes and seconds, up to a letter: thousandths of a second from 2^31 on.
fn angle(words: &mut Words<'_>, max: u32, letters: [&str; 2]) -> Result<u32, String> {
    let (mut angle, mut limit) = (0, max);
    for (what, unit, decimals) in
        [("degrees", DEGREE, 0), ("minutes", 60_000, 0), ("seconds", 1, 3)]
    {
        angle += words.take(what, |word| {
            let part = u32::try_from(decimal(&word.text(), decimals)?).ok()?.checked_mul(unit)?;
            (part <= limit && angle + part <= max).then_some(part)
        })?;
        limit = unit - 1;
        if words.take_if(letters[0]) {
            return Ok((1 << 31) + angle);
        } else if words.take_if(letters[1]) {
            return Ok((1 << 31) - angle);
        }
    }
    words.take(&letters.join(" or "), |_| None)
}

/// The digits of a number without its point, which this many follow.
fn decimal(text: &str, decimals: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = !text.ends_with('.') && part.len() <= decimals;
    number(&format!("{whole}{part:0<decimals$}")).filter(|_| is_number && !whole.is_empty())
}

fn centimetres(text: &str) -> Option<u64> {
    decimal(text.strip_suffix('m').unwrap_or(text), 2)
}
