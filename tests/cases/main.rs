//! Faults that others met, by kind, each as a test that fails where the rule behind it is broken; and input that means harm.

mod bad_input;
mod data;
mod hooks;
mod judged;
mod peers;
mod pitfalls;
mod run;
