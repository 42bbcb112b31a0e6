//! `MMSG_OFFLOAD`: the environment's switch for the offloads of the whole process.

use std::env;
use std::ffi::OsStr;
use std::sync::OnceLock;

/// The value of the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    /// Not set, or neither 0 nor 1.
    Default,
    /// 0.
    Off,
    /// 1.
    On,
}

impl Switch {
    /// Read once.
    pub(super) fn get() -> Self {
        static SWITCH: OnceLock<Switch> = OnceLock::new();
        let read = || env::var_os("MMSG_OFFLOAD").map_or(Self::Default, |value| Self::of(&value));
        *SWITCH.get_or_init(read)
    }

    fn of(value: &OsStr) -> Self {
        match value.as_encoded_bytes() {
            b"0" => Self::Off,
            b"1" => Self::On,
            _ => Self::Default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n1_only_0_and_1_mean_anything() {
        let cases = [("0", Switch::Off), ("1", Switch::On)];
        for (value, switch) in cases {
            assert_eq!(Switch::of(value.as_ref()), switch);
        }
        for value in ["", "default", "00", "01", "on", "true", " 1", "2"] {
            assert_eq!(Switch::of(value.as_ref()), Switch::Default, "{value:?}");
        }
    }
}
