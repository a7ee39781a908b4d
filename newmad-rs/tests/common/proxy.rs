//! A TCP network between two processes that can be cut, made to swallow everything or to change a bit, or be listened
//! to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What it does with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Passes everything on.
    Pass,
    /// Holds everything back, to pass it on later.
    Stall,
    /// Takes connections and bytes, and passes nothing on.
    Swallow,
    /// Ends every connection when it is made.
    Refuse,
    /// Passes everything on, but for one bit each way of every connection, far behind its beginning.
    Spoil,
}

/// Bytes of a connection that are never spoiled: what is said before there are checksums.
const GREETING: usize = 4096;
/// Where the bit is, behind them.
const SPOILED: usize = 300_000;

struct State {
    mode: Mode,
    /// Both ends of the connections that there are.
    streams: Vec<TcpStream>,
    made: usize,
    spoiled: usize,
    /// What callers have said first, if it is kept.
    heard: Option<Vec<Arc<Mutex<Vec<u8>>>>>,
}

/// See the module. Stands in front of one listening process.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    /// A proxy to `target`, with threads that last as long as the process.
    pub(crate) fn new(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state =
            State { mode: Mode::Pass, streams: Vec::new(), made: 0, spoiled: 0, heard: None };
        let proxy =
            Proxy { address: listener.local_addr().unwrap(), state: Arc::new(Mutex::new(state)) };
        let here = proxy.clone();
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                // A refusal by the target looks the same to the caller, a little later.
                let Ok(called) = TcpStream::connect(target) else { continue };
                if here.mode() == Mode::Refuse {
                    continue;
                }
                let _ = (caller.set_nodelay(true), called.set_nodelay(true));
                let mut heard: Option<Arc<Mutex<Vec<u8>>>> = None;
                {
                    let mut state = here.state.lock().unwrap();
                    state.streams.push(caller.try_clone().unwrap());
                    state.streams.push(called.try_clone().unwrap());
                    state.made += 1;
                    if let Some(all) = &mut state.heard {
                        all.push(heard.insert(Arc::default()).clone());
                    }
                }
                let pairs = [
                    (caller.try_clone().unwrap(), called.try_clone().unwrap(), heard),
                    (called, caller, None),
                ];
                for (from, to, heard) in pairs {
                    let proxy = here.clone();
                    std::thread::spawn(move || proxy.pump(from, to, heard));
                }
            }
        });
        proxy
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, heard: Option<Arc<Mutex<Vec<u8>>>>) {
        let mut bytes = vec![0; 64 * 1024];
        let mut before = 0;
        let bit = self.made().wrapping_mul(0x9e37_79b9) % (8 * SPOILED);
        while let Ok(got @ 1..) = from.read(&mut bytes) {
            let mut mode = self.mode();
            while mode == Mode::Stall {
                std::thread::sleep(Duration::from_millis(1));
                mode = self.mode();
            }
            if mode == Mode::Swallow {
                continue;
            }
            let at = (GREETING + bit / 8).wrapping_sub(before);
            if mode == Mode::Spoil && at < got {
                bytes[at] ^= 1 << (bit % 8);
                self.state.lock().unwrap().spoiled += 1;
            }
            before += got;
            if let Some(heard) = &heard {
                heard.lock().unwrap().extend_from_slice(&bytes[..got]);
            }
            if to.write_all(&bytes[..got]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }

    fn mode(&self) -> Mode {
        self.state.lock().unwrap().mode
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.state.lock().unwrap().mode = mode;
    }

    /// Ends every connection that there is.
    pub(crate) fn cut(&self) {
        for stream in self.state.lock().unwrap().streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Bits changed so far.
    pub(crate) fn spoiled(&self) -> usize {
        self.state.lock().unwrap().spoiled
    }

    /// Connections made so far.
    pub(crate) fn made(&self) -> usize {
        self.state.lock().unwrap().made
    }

    /// Keeps what callers say from now on.
    pub(crate) fn listen(&self) {
        self.state.lock().unwrap().heard = Some(Vec::new());
    }

    /// What each caller has said.
    pub(crate) fn heard(&self) -> Vec<Vec<u8>> {
        let state = self.state.lock().unwrap();
        state.heard.iter().flatten().map(|one| one.lock().unwrap().clone()).collect()
    }
}
