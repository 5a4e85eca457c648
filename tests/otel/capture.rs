//! Writes down all that is logged in this process, at every level, with every field.

use std::{
    fmt::{Debug, Write},
    sync::{Mutex, PoisonError},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::layer::{Context, Layer};

static LOGGED: Mutex<String> = Mutex::new(String::new());

pub(crate) struct Capture;

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = writeln!(self.0, "{field}={value:?}");
    }
}

fn write(record: impl FnOnce(&mut Fields<'_>)) {
    record(&mut Fields(&mut LOGGED.lock().unwrap_or_else(PoisonError::into_inner)));
}

impl<S: Subscriber> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        write(|fields| attributes.record(fields));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        write(|fields| values.record(fields));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        write(|fields| event.record(fields));
    }
}

/// Whether this was logged so far.
pub(crate) fn was_logged(text: &str) -> bool {
    LOGGED.lock().unwrap_or_else(PoisonError::into_inner).contains(text)
}
