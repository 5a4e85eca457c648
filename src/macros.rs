//! What is the same in every layer.

/// Access to the service within.
macro_rules! accessors {
    () => {
        /// The service within.
        pub const fn get_ref(&self) -> &S {
            &self.inner
        }

        /// The service within, to change.
        pub const fn get_mut(&mut self) -> &mut S {
            &mut self.inner
        }

        /// Takes the service within out.
        pub fn into_inner(self) -> S {
            self.inner
        }
    };
}

pub(crate) use accessors;
