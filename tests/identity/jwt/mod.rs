mod attacks;
mod claims;
mod key_sets;
mod properties;
mod second_library;
mod sources;
