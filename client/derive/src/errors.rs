//! Collects the errors of a type, so that the compiler shows all of them at once.

use syn::Error;

#[derive(Default)]
pub(crate) struct Errors(Option<Error>);

impl Errors {
    pub(crate) fn add(&mut self, at: &dyn quote::ToTokens, message: impl std::fmt::Display) {
        self.add_error(Error::new_spanned(at.to_token_stream(), message));
    }

    pub(crate) fn add_error(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add_error(error)).ok()
    }

    pub(crate) fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
