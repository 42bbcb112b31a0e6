//! Requests to the servers, and how to recognize the answers.

use crate::common::payload;

/// A type of request.
#[derive(Clone, Copy)]
pub struct Request {
    /// The request with this number.
    pub make: fn(u32) -> Vec<u8>,
    /// Whether the second slice answers the first, and no other request.
    pub is_answer: fn(&[u8], &[u8]) -> bool,
}

pub const ECHO: Request = Request {
    make: |number| payload(number as usize, 64),
    is_answer: |request, answer| answer == request,
};

/// www.example.test A IN, with the last 16 bits of the number as ID.
pub const DNS: Request = Request {
    make: |number| {
        let mut bytes = number.to_be_bytes()[2..].to_vec();
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        bytes.extend(b"\x03www\x07example\x04test\0\0\x01\0\x01");
        bytes
    },
    is_answer: |request, answer| answer.len() > 12 && answer[..2] == request[..2],
};

/// An NTP request. The answer repeats its send timestamp as origin (RFC 5905, section 7.3).
pub const NTP: Request = Request {
    make: |number| {
        let mut bytes = vec![0; 48];
        bytes[0] = 0o43;
        bytes[40..44].copy_from_slice(&number.to_be_bytes());
        bytes
    },
    is_answer: |request, answer| answer.len() == 48 && answer[24..32] == request[40..48],
};
