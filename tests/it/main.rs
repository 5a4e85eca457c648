mod around;
mod redact;
mod reload;
mod session;
mod validate;
