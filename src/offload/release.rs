//! Kernel releases that damage GSO batches.

use std::sync::OnceLock;

use crate::sys;

/// A kernel's release: the first three numbers of `uname -r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Release(u32, u32, u32);

/// Linux 7.0.0 (commit b10b446ce7ad) to 7.1.4: on many devices, GSO batches whose segments all have the same length
/// leave damaged. Commits 78effd896eee and 5f17ae0f595a fixed it.
const DAMAGING: [Release; 2] = [Release(7, 0, 0), Release(7, 1, 4)];

impl Release {
    /// The release of the running kernel, read once. `None` if unknown.
    pub(super) fn current() -> Option<Self> {
        static CURRENT: OnceLock<Option<Release>> = OnceLock::new();
        #[cfg(any(test, fuzzing))]
        if let Some(text) = sys::fault::release() {
            return Self::parse(text);
        }
        *CURRENT.get_or_init(|| Self::parse(&sys::kernel_release()?))
    }

    /// Reads "7.1.3-arch1-2" as 7.1.3 and "7.1-rc2" as 7.1.0.
    fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
        let mut numbers = numbers.split('.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        let patch = numbers.next().map_or(Some(0), |patch| patch.parse().ok())?;
        Some(Self(major, minor, patch))
    }

    /// Whether GSO batches leave damaged on some devices.
    pub(super) fn damages_batches(self) -> bool {
        let [first, last] = DAMAGING;
        (first..=last).contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn n1_releases_are_read_as_distributions_write_them() {
        let damages = |text| Release::parse(text).map(Release::damages_batches);
        for text in ["7.0.0", "7.0", "7.0-rc7", "7.0.12-arch1-1", "7.1.0-rc1", "7.1.4-200.fc44"] {
            assert_eq!(damages(text), Some(true), "{text}");
        }
        for text in ["4.18.0-553.el8", "6.18.44", "6.99.99", "7.1.5", "7.1.10", "7.2-rc1", "8.0"] {
            assert_eq!(damages(text), Some(false), "{text}");
        }
        for text in ["", "7", "seven", "7.x", ".7.0", "7..0", "99999999999.0.0"] {
            assert_eq!(damages(text), None, "{text}");
        }
    }

    proptest! {
        /// The twin compares one number.
        #[test]
        fn n1_the_damaging_releases_are_a_range(
            major in 5u32..10, minor in 0u32..4, patch in 0u32..9, tail in "(-[a-z0-9.+_-]{0,12})?",
        ) {
            let release = Release::parse(&format!("{major}.{minor}.{patch}{tail}"));
            prop_assert_eq!(release, Some(Release(major, minor, patch)));
            let number = major * 100 + minor * 10 + patch;
            let damages = release.is_some_and(Release::damages_batches);
            prop_assert_eq!(damages, (700..=714).contains(&number));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,24}") {
            let _ = Release::parse(&text);
        }
    }
}
