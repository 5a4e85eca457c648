mod around;
mod permission;
