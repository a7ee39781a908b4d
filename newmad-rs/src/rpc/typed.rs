//! Calls with arguments and results of any type that serde knows, as bytes of the postcard format.
//!
//! Both sides must mean the same type: what decodes as another one is an error, unless it happens to decode. postcard
//! is compact (a small number is a byte), its decoder does not believe lengths, and it needs no description at run
//! time.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use pioman::Completion;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::Status;
use super::{CallError, Client, Context, Priority, Reply, Rpc, Service, ServiceBuilder};

fn encode(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, CallError> {
    postcard::to_stdvec(value).map_err(|error| CallError::Unencodable(error.to_string()))
}

/// Everything has to be used: what is left over was meant for another type.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes are left over", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}

impl Rpc {
    /// Registers a service: arguments to result.
    ///
    /// ```
    /// newmad::run(|session| {
    ///     let rpc = session.rpc()?;
    ///     rpc.serve("sum", |_, (a, b): (u64, u64)| a + b)?;
    ///     session.barrier()?;
    ///     assert_eq!(rpc.call::<_, u64>(0, "sum", &(1u64, 2u64))?.wait()?, 3);
    ///     session.barrier()?;
    ///     Ok::<(), newmad::CallError>(())
    /// })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Context, Errors
    /// As [`ServiceBuilder::bytes`].
    pub fn serve<'a, A: DeserializeOwned, R: Serialize>(
        &'a self,
        service: impl Into<Service<'a>>,
        handler: impl Fn(&Context, A) -> R + Send + Sync + 'static,
    ) -> Result<(), CallError> {
        self.service(service).typed(handler)
    }
}

impl ServiceBuilder<'_> {
    /// Registers the service, see [`Rpc::serve`].
    ///
    /// # Context, Errors
    /// As [`ServiceBuilder::bytes`].
    pub fn typed<A: DeserializeOwned, R: Serialize>(
        self,
        handler: impl Fn(&Context, A) -> R + Send + Sync + 'static,
    ) -> Result<(), CallError> {
        self.fallible(move |context, arguments| Ok::<R, String>(handler(context, arguments)))
    }

    /// As [`ServiceBuilder::typed`], of a handler that may fail: the caller gets what the error says as
    /// [`CallError::Failed`].
    ///
    /// # Context, Errors
    /// As [`ServiceBuilder::bytes`].
    pub fn fallible<A: DeserializeOwned, R: Serialize, E: std::fmt::Display>(
        self,
        handler: impl Fn(&Context, A) -> Result<R, E> + Send + Sync + 'static,
    ) -> Result<(), CallError> {
        self.register(Box::new(move |context, bytes| {
            let arguments = decode(&bytes).map_err(|why| (Status::BadArguments, why))?;
            drop(bytes);
            let result =
                handler(context, arguments).map_err(|error| (Status::Failed, error.to_string()))?;
            encode(&result).map_err(|error| (Status::Failed, error.to_string()))
        }))
    }
}

impl Client {
    /// Calls a service of rank `peer`.
    ///
    /// # Context, Blocking
    /// As [`Client::call_bytes`].
    /// # Errors
    /// As [`Client::call_bytes`]; the arguments cannot be encoded.
    pub fn call<'a, A: Serialize + ?Sized, R: DeserializeOwned>(
        &self,
        peer: u32,
        service: impl Into<Service<'a>>,
        arguments: &A,
    ) -> Result<Answer<R>, CallError> {
        self.call_at(Priority::Normal, peer, service, arguments)
    }

    /// As [`Client::call`], of another priority.
    ///
    /// # Context, Blocking, Errors
    /// As [`Client::call`].
    pub fn call_at<'a, A: Serialize + ?Sized, R: DeserializeOwned>(
        &self,
        priority: Priority,
        peer: u32,
        service: impl Into<Service<'a>>,
        arguments: &A,
    ) -> Result<Answer<R>, CallError> {
        let reply = self.call_bytes_at(priority, peer, service, encode(arguments)?)?;
        Ok(Answer { reply, _result: PhantomData })
    }

    /// Calls a service of rank `peer` of which nothing comes back.
    ///
    /// # Context, Blocking, Errors
    /// As [`Client::cast_bytes`]; the arguments cannot be encoded.
    pub fn cast<'a, A: Serialize + ?Sized>(
        &self,
        peer: u32,
        service: impl Into<Service<'a>>,
        arguments: &A,
    ) -> Result<(), CallError> {
        self.cast_bytes(Priority::Normal, peer, service, encode(arguments)?)
    }
}

/// The result of a call, which will come: a [`Reply`] of a type. Dropped, it says that the result is not wanted.
#[must_use = "an answer that is dropped does not tell how the call ended; `cast` is for calls without one"]
pub struct Answer<R> {
    reply: Reply,
    _result: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Answer<R> {
    /// Waits for the result.
    ///
    /// # Context, Blocking, Errors
    /// As [`Reply::wait`]; [`CallError::Undecodable`] when it is of another type.
    pub fn wait(self) -> Result<R, CallError> {
        let bytes = self.reply.wait_and_keep()?;
        decode(&bytes).map_err(|why| self.reply.undecodable(&why))
    }

    /// See [`Reply::wait_timeout`].
    pub fn wait_timeout(&self, time: Duration) -> bool {
        self.reply.wait_timeout(time)
    }

    /// See [`Reply::test`].
    pub fn test(&self) -> bool {
        self.reply.test()
    }

    /// See [`Reply::completion`].
    pub fn completion(&self) -> &Completion {
        self.reply.completion()
    }

    /// Rank that was called.
    pub fn peer(&self) -> u32 {
        self.reply.peer()
    }
}

impl<R: DeserializeOwned + 'static> IntoFuture for Answer<R> {
    type Output = Result<R, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let bytes = self.reply.await_and_keep().await?;
            decode(&bytes).map_err(|why| self.reply.undecodable(&why))
        })
    }
}

impl<R> std::fmt::Debug for Answer<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.reply.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Value = (u64, Option<String>, Vec<Vec<i32>>);

    proptest! {
        #[test]
        fn hostile_bytes_are_an_error_or_a_value(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode::<Value>(&bytes);
        }

        #[test]
        fn values_survive(value: Value) {
            prop_assert_eq!(decode::<Value>(&encode(&value).unwrap()), Ok(value));
        }
    }

    #[test]
    fn another_type_is_found_out() {
        let bytes = encode(&(1u8, 2u8, 3u8)).unwrap();
        assert!(decode::<(u8, u8)>(&bytes).unwrap_err().contains("left over"));
        assert!(decode::<String>(&bytes[2..]).is_err());
        // A length that is not there is not allocated.
        assert!(decode::<Vec<u8>>(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    }
}
