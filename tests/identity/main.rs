//! Who asks, and with which credentials.
