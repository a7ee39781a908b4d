//! The server as its library holds it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::counters::Counters;
use super::options::Options;
use super::pending::Pending;
use super::request::Request;
use super::server_source::Served;
use super::shared::{NotTaken, Refused, Shared};
use marcel::plumbing::budget;
use pioman::Hint;
use pioman::Manager;

/// An event server; see [`crate::server`]. Clones are handles of the same one. When the last is dropped it is stopped,
/// and its callbacks go with the last call and the last [`Request`].
pub struct Server<R: Send + Sync + 'static>(Arc<Owner<R>>);

struct Owner<R: Send + Sync + 'static> {
    shared: Arc<Shared<R>>,
    manager: Arc<Manager>,
}

impl<R: Send + Sync + 'static> Clone for Server<R> {
    fn clone(&self) -> Self {
        Server(self.0.clone())
    }
}

impl<R: Send + Sync + 'static> Server<R> {
    pub(super) fn new(shared: Arc<Shared<R>>, manager: Arc<Manager>) -> Server<R> {
        shared.servers.add(shared.clone());
        Server(Arc::new(Owner { shared, manager }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.shared.name
    }

    /// Submits a request that the caller owns. Its end may be found from now on.
    ///
    /// # Context
    /// Not a signal handler.
    ///
    /// # Errors
    /// The server is stopped, or cannot find the end of any request.
    pub fn submit(&self, value: R) -> Result<Request<R>, NotTaken<R>> {
        self.submit_with(value, Options::default())
    }

    /// As [`Server::submit`], with hints.
    ///
    /// # Errors
    /// As [`Server::submit`]; or it cannot find the end of a request with these hints.
    pub fn submit_with(&self, value: R, options: Options) -> Result<Request<R>, NotTaken<R>> {
        let request = self.take(value, options)?;
        self.0.manager.ensure_watched();
        Ok(request)
    }

    /// Submits a request and waits for its end, for at most `timeout`: it is still pending then.
    ///
    /// # Context, Blocking
    /// As [`Request::wait`].
    ///
    /// # Errors
    /// As [`Server::submit_with`].
    pub fn wait(
        &self,
        value: R,
        options: Options,
        timeout: Option<Duration>,
    ) -> Result<Request<R>, NotTaken<R>> {
        let request = self.take(value, options)?;
        match timeout {
            None => drop(request.wait()),
            Some(timeout) => drop(request.wait_timeout(timeout)),
        }
        Ok(request)
    }

    fn take(&self, value: R, options: Options) -> Result<Request<R>, NotTaken<R>> {
        let Owner { shared, manager } = &*self.0;
        let pending = shared.submit(value, options, false)?;
        Ok(Request { pending, server: shared.clone(), manager: manager.clone() })
    }

    /// Submits a request that the library owns: no handle keeps it, and [`Server::wait_any`] gives its end.
    ///
    /// # Errors
    /// As [`Server::submit_with`].
    pub fn post(&self, value: R, options: Options) -> Result<Pending<R>, NotTaken<R>> {
        let pending = self.0.shared.submit(value, options, true)?;
        self.0.manager.ensure_watched();
        Ok(pending)
    }

    /// Waits until any of the library's own requests has ended, and gives it (the one that ended first, and each once).
    /// `Ok(None)` after `timeout`.
    ///
    /// # Context, Blocking
    /// As [`Request::wait`].
    ///
    /// # Errors
    /// The server is stopped, and all that have ended were given.
    pub fn wait_any(&self, timeout: Option<Duration>) -> Result<Option<Pending<R>>, Refused> {
        budget::spend();
        let Owner { shared, manager } = &*self.0;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let look = || {
            let mut state = shared.lock();
            match state.ended.pop_front() {
                Some(request) => Some(Ok(request)),
                None => state.stopped.then_some(Err(Refused::Stopped)),
            }
        };
        let options = Options::default().hint(Hint::Short);
        let any = &shared.common.any;
        shared.wait_on(manager, any, shared.hints(&options), deadline, look).transpose()
    }

    /// Looks once for events, and gives one of the library's own requests that has ended, if there is one.
    ///
    /// # Context
    /// Not a signal handler. Never blocks.
    pub fn test_any(&self) -> Option<Pending<R>> {
        let take = || self.0.shared.lock().ended.pop_front();
        take().or_else(|| {
            self.0.shared.test();
            self.0.shared.sweep();
            take()
        })
    }

    /// Stops it: everything pending ends ([`super::Outcome::Stopped`]), and nothing is taken any more. When this
    /// returns no callback runs, but blocking ones that nothing gets out of their call (see
    /// [`super::Builder::interrupt`]), and those that the caller itself is in.
    ///
    /// # Wakes
    /// All that wait for requests of the server, or for any.
    pub fn stop(&self) {
        self.0.shared.stop();
    }

    /// Takes requests again after [`Server::stop`]. (A new server is started already.)
    pub fn start(&self) {
        self.0.shared.lock().stopped = false;
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.0.shared.common.snapshot()
    }
}

impl<R: Send + Sync + 'static> Drop for Owner<R> {
    fn drop(&mut self) {
        self.shared.stop();
        let served: Arc<dyn Served> = self.shared.clone();
        self.shared.servers.remove(&served);
        // A poller with a copy of the list would drop the callbacks under its pin; one that owns a source would then
        // wait for the poller itself.
        self.shared.core.wait_for_pollers();
    }
}

impl<R: Send + Sync + 'static> fmt::Debug for Server<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.name())
            .field("counters", &self.counters())
            .field("state", &*self.0.shared.lock())
            .finish()
    }
}
