mod around;
mod session;
mod validate;
