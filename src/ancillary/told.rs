//! Metadata of a message, beside it.

use super::RecvMeta;
use crate::sys::CONTROL_SPACE;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    meta: RecvMeta,
}

impl Told {
    pub(crate) const NOTHING: Self = Self { meta: RecvMeta::NONE };

    #[inline]
    pub(crate) fn meta(&self) -> &RecvMeta {
        &self.meta
    }

    pub(crate) fn read_usual(&mut self, _: &[u8; CONTROL_SPACE], _: usize) -> bool {
        false
    }

    pub(crate) fn read(&mut self, control: &[u8]) -> Option<u16> {
        self.meta = RecvMeta::decode(control);
        self.meta.segment_size
    }
}

impl From<RecvMeta> for Told {
    fn from(meta: RecvMeta) -> Self {
        Self { meta }
    }
}
