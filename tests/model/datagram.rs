//! Datagrams whose bytes show their number, and whether they are complete and unchanged.

/// Length of a datagram's header with its number. Shorter datagrams are known only by their length.
pub const HEADER: usize = 12;

/// The number of a stream: the datagrams of one sender to one destination, in order.
pub type Stream = u8;

/// Identifies a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    Numbered {
        stream: Stream,
        number: u32,
        len: u16,
    },
    /// Any datagram of this length; all are the same.
    Short(u16),
}

impl Identity {
    pub fn len(self) -> usize {
        match self {
            Self::Numbered { len, .. } | Self::Short(len) => len.into(),
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> Vec<u8> {
        let Self::Numbered { stream, number, len } = self else {
            return vec![self.len() as u8; self.len()];
        };
        let mut bytes = vec![stream];
        bytes.extend(number.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        let sum = bytes.iter().fold(7u32, |sum, byte| sum.wrapping_mul(31) + u32::from(*byte));
        bytes.push(0xA5);
        bytes.extend(sum.to_be_bytes());
        let mut state = sum | 1;
        bytes.resize_with(len.into(), || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        bytes
    }

    /// Reads a received datagram; `None` if truncation cut off its number.
    ///
    /// # Panics
    ///
    /// If its bytes have changed, or if it is wrongly marked as truncated or complete.
    pub fn read(data: &[u8], truncated: bool) -> Option<Self> {
        if data.len() < HEADER {
            let short = Self::Short(data.len() as u16);
            if !truncated {
                assert_eq!(data, short.bytes(), "a short datagram");
            }
            return (!truncated).then_some(short);
        }
        let number = u32::from_be_bytes(data[1..5].try_into().expect("four bytes"));
        let len = u16::from_be_bytes(data[5..7].try_into().expect("two bytes"));
        let numbered = Self::Numbered { stream: data[0], number, len };
        let whole = numbered.bytes();
        assert!(whole.starts_with(data), "{numbered:?} came as {} other bytes", data.len());
        assert_eq!(truncated, data.len() < whole.len(), "{numbered:?} in {} bytes", data.len());
        Some(numbered)
    }
}
