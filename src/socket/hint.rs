//! rustc's answer to a batch call on a type that has none.

use std::marker::PhantomData;

use super::BatchSocket;

/// A decoy that makes rustc suggest the missing feature, by the notes of [`BatchSocket`].
///
/// rustc prints a trait's notes for a missing method only if an implementation with that method requires the trait. The one
/// below does. It applies to no type, as `PhantomData` is not a socket, so no call gets here. rustc prints its name, too.
#[doc(hidden)]
pub trait DatagramSocketWithItsFeatureOn {
    fn recv_batch(&self) {}
    fn send_batch(&self) {}
    fn recv_into(&self) {}
    fn recv_slices(&self) {}
}

impl<T: BatchSocket + ?Sized> DatagramSocketWithItsFeatureOn for T where PhantomData<T>: BatchSocket {}
