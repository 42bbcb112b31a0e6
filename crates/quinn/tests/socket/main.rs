//! The socket alone, and under quinn's endpoints.

mod alone;
mod kit;
mod life;
mod relay;
mod transfers;
