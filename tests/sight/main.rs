//! What an operator sees of the calls.
