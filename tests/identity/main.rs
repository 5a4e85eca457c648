//! Who asks, and with which credentials.

mod authenticate;
mod jwt;
mod keys;
mod mint;
