//! `MMSG_GSO` and `MMSG_GRO`: what the environment says of the offloads of the whole process.

use std::env;
use std::ffi::OsStr;
use std::sync::OnceLock;

/// What a variable says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Switch {
    /// Nothing: the variable is not set, or is neither 0 nor 1.
    #[default]
    Default,
    /// 0.
    Off,
    /// 1.
    On,
}

impl Switch {
    /// Of GSO, read once.
    pub(super) fn gso() -> Self {
        static GSO: OnceLock<Switch> = OnceLock::new();
        *GSO.get_or_init(|| Self::read("MMSG_GSO"))
    }

    /// Of GRO, read once.
    pub(super) fn gro() -> Self {
        static GRO: OnceLock<Switch> = OnceLock::new();
        *GRO.get_or_init(|| Self::read("MMSG_GRO"))
    }

    fn read(name: &str) -> Self {
        env::var_os(name).map_or(Self::Default, |value| Self::parse(&value))
    }

    fn parse(value: &OsStr) -> Self {
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
            assert_eq!(Switch::parse(value.as_ref()), switch);
        }
        for value in ["", "default", "00", "01", "on", "true", " 1", "2"] {
            assert_eq!(Switch::parse(value.as_ref()), Switch::Default, "{value:?}");
        }
    }
}
