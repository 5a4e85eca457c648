mod around;
mod session;
