mod around;
mod hooks;
