//! A reliable connection of two adapters, and the memory that it sends from.

use std::io;
use std::sync::Arc;

use super::adapter::{Adapter, Which};
use super::library::constant as c;
use super::library::{self, Capacity, Path, Piece, QueuePairAttributes, QueuePairInit, Send};
use super::memory::Memory;
use super::owned::Owned;
use crate::memory::span::Span;
use crate::net::details::QueuePairAddress;

/// Bytes up to which a request carries its data itself, as far as the adapter can: it need not fetch them then. The first
/// that it takes.
const INLINE: [u32; 5] = [256, 128, 64, 32, 0];
/// Most requests that are given to the adapter at once.
pub(in crate::net::verbs) const BATCH: usize = 16;
/// How long an adapter waits for the other one's answer: 4.096 µs · 2^16 = 268 ms; and how often it tries again. An adapter
/// made of software that gets no processor for some tenths of a second is not taken for a dead one. A machine that vanishes
/// is noticed earlier, by the socket's probes.
const TIMEOUT: u8 = 16;
const RETRIES: u8 = 7;
/// A receiver without a buffer asks the sender to wait for 0.64 ms, as often as need be.
const NOT_READY_TIMER: u8 = 12;
const FOR_EVER: u8 = 7;

/// One packet in a slot.
#[derive(Clone, Copy, Debug)]
pub(in crate::net::verbs) struct Packet {
    pub(in crate::net::verbs) slot: usize,
    pub(in crate::net::verbs) len: usize,
    /// The word that comes along, if it is sent.
    pub(in crate::net::verbs) word: u32,
    /// `Some`: it is written to this address of the peer, by that key, and no word comes along.
    pub(in crate::net::verbs) target: Option<(u64, u32)>,
}

/// A queue pair that is to fail.
pub(in crate::net::verbs) struct Failing {
    pair: *mut library::QueuePair,
    lib: &'static library::Ibverbs,
}

// SAFETY: the library's objects may be used by any thread.
unsafe impl std::marker::Send for Failing {}

impl Failing {
    /// As [`QueuePair::fail`].
    ///
    /// # Safety
    /// The queue pair lives.
    pub(in crate::net::verbs) unsafe fn fail(self) {
        let mut attributes =
            QueuePairAttributes { state: c::QPS_ERR, ..QueuePairAttributes::default() };
        // SAFETY: the caller's promise; a local of the type that is asked for.
        unsafe { (self.lib.modify_qp)(self.pair, &raw mut attributes, c::QP_STATE) };
    }
}

/// See the module.
pub(in crate::net::verbs) struct QueuePair {
    // In this order: the adapter reads the memory until the queue pair is gone.
    pair: Owned<library::QueuePair>,
    memory: Memory,
    adapter: Arc<Adapter>,
    inline: usize,
    mtu: u8,
    own_gid: u8,
    is_ethernet: bool,
    address: QueuePairAddress,
}

impl QueuePair {
    /// A queue pair that knows no peer. `psn`: any number.
    ///
    /// # Errors
    /// The port is down, or the kernel refuses memory.
    pub(in crate::net::verbs) fn new(
        adapter: &Arc<Adapter>,
        psn: u32,
        slots: u16,
    ) -> io::Result<QueuePair> {
        let (state, own_gid, gid) = adapter.state()?;
        let plan = adapter.plan;
        let memory = Memory::new(adapter, plan.buffer * plan.each)?;
        let mut made = Err(io::Error::from_raw_os_error(libc::EINVAL));
        let mut inline = 0;
        for most in INLINE {
            let mut init = QueuePairInit {
                context: std::ptr::null_mut(),
                send_cq: adapter.queue(Which::Sends),
                recv_cq: adapter.queue(Which::Receives),
                srq: adapter.shared().as_ptr(),
                cap: Capacity {
                    max_send_wr: (plan.each + plan.reads) as u32,
                    max_send_sge: 1,
                    max_inline_data: most,
                    ..Capacity::default()
                },
                kind: c::QPT_RC,
                sq_sig_all: 1,
            };
            // SAFETY: all that it is made of is the adapter's, which outlives it.
            made = unsafe {
                let lib = adapter.lib();
                Owned::new(
                    (lib.create_qp)(adapter.domain().as_ptr(), &raw mut init),
                    lib.destroy_qp,
                )
            };
            if made.is_ok() {
                inline = init.cap.max_inline_data as usize;
                break;
            }
        }
        let pair = made?;
        // SAFETY: it lives.
        let number = unsafe { (*pair.as_ptr()).number };
        let mtu = state.attributes.active_mtu as u8;
        let address = QueuePairAddress {
            number,
            psn: psn & 0xff_ffff,
            lid: state.attributes.lid,
            mtu,
            slots,
            gid,
        };
        let is_ethernet = state.is_ethernet();
        let adapter = adapter.clone();
        let pair = QueuePair { pair, memory, adapter, inline, mtu, own_gid, is_ethernet, address };
        let attributes = QueuePairAttributes {
            state: c::QPS_INIT,
            port_num: pair.adapter.port(),
            access_flags: (c::ACCESS_REMOTE_READ | c::ACCESS_REMOTE_WRITE) as u32,
            ..QueuePairAttributes::default()
        };
        let mask = c::QP_STATE | c::QP_PKEY_INDEX | c::QP_PORT | c::QP_ACCESS_FLAGS;
        pair.modify(attributes, mask)?;
        Ok(pair)
    }

    fn modify(&self, mut attributes: QueuePairAttributes, mask: i32) -> io::Result<()> {
        let modify = self.adapter.lib().modify_qp;
        // SAFETY: the queue pair lives; a local of the type that is asked for.
        match unsafe { modify(self.pair.as_ptr(), &raw mut attributes, mask) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno.abs())),
        }
    }

    /// What the peer has to know of it.
    pub(in crate::net::verbs) fn address(&self) -> QueuePairAddress {
        self.address
    }

    /// Its number, which its completions carry.
    pub(in crate::net::verbs) fn number(&self) -> u32 {
        self.address.number
    }

    /// Connects it with the peer's.
    ///
    /// # Errors
    /// The adapter does not know a way to there.
    pub(in crate::net::verbs) fn connect(&self, theirs: &QueuePairAddress) -> io::Result<()> {
        let (high, low) = theirs.gid.split_at(8);
        let half = |bytes: &[u8]| {
            let mut half = [0; 8];
            half.copy_from_slice(bytes);
            u64::from_ne_bytes(half)
        };
        // Within a subnet of InfiniBand the local identifier is the address; between subnets, and over Ethernet, the
        // global one is.
        let is_global =
            self.is_ethernet || theirs.lid == 0 || theirs.gid[..8] != self.address.gid[..8];
        let path = Path {
            dgid: [half(high), half(low)],
            sgid_index: self.own_gid,
            hop_limit: 64,
            dlid: theirs.lid,
            is_global: u8::from(is_global),
            port_num: self.adapter.port(),
            ..Path::default()
        };
        let receive = QueuePairAttributes {
            state: c::QPS_RTR,
            path_mtu: self.mtu.min(theirs.mtu).into(),
            dest_qp_num: theirs.number,
            rq_psn: theirs.psn,
            max_dest_rd_atomic: 1,
            min_rnr_timer: NOT_READY_TIMER,
            path,
            ..QueuePairAttributes::default()
        };
        let mask = c::QP_STATE
            | c::QP_AV
            | c::QP_PATH_MTU
            | c::QP_DEST_QPN
            | c::QP_RQ_PSN
            | c::QP_MAX_DEST_RD_ATOMIC
            | c::QP_MIN_RNR_TIMER;
        self.modify(receive, mask)?;
        let send = QueuePairAttributes {
            state: c::QPS_RTS,
            sq_psn: self.address.psn,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: FOR_EVER,
            max_rd_atomic: 1,
            ..QueuePairAttributes::default()
        };
        let mask = c::QP_STATE
            | c::QP_TIMEOUT
            | c::QP_RETRY_CNT
            | c::QP_RNR_RETRY
            | c::QP_SQ_PSN
            | c::QP_MAX_QP_RD_ATOMIC;
        self.modify(send, mask)
    }

    /// Has it fail: nothing goes or comes any more, and its requests end.
    pub(in crate::net::verbs) fn fail(&self) {
        let attributes =
            QueuePairAttributes { state: c::QPS_ERR, ..QueuePairAttributes::default() };
        let _ = self.modify(attributes, c::QP_STATE);
    }

    /// What another thread needs to have it fail.
    pub(in crate::net::verbs) fn failing(&self) -> Failing {
        Failing { pair: self.pair.as_ptr(), lib: self.adapter.lib() }
    }

    /// Reads `len` bytes at `remote` in the peer's memory, which it names by `key`, into registered memory, named by its
    /// key. True: the completion of the request with this number tells the end. Progress path.
    ///
    /// # Safety
    /// The memory is writable, and the adapter's alone, until then, or until the queue pair is destroyed.
    pub(in crate::net::verbs) unsafe fn read(
        &mut self,
        number: u64,
        (to, lkey): (*mut u8, u32),
        len: usize,
        (remote, key): (u64, u32),
    ) -> bool {
        let mut piece = Piece { addr: to as u64, length: len as u32, lkey };
        // SAFETY: numbers and null pointers.
        let mut request: Send = unsafe { std::mem::zeroed() };
        request.wr_id = number;
        request.sg_list = &raw mut piece;
        request.num_sge = 1;
        request.opcode = c::WR_RDMA_READ;
        request.send_flags = c::SEND_SIGNALED;
        request.remote_addr = remote;
        request.rkey = key;
        let mut refused: *mut Send = std::ptr::null_mut();
        // SAFETY: the queue pair lives; the request and its piece are read before the call returns, and the memory is the
        // caller's promise.
        unsafe { self.adapter.send(self.pair.as_ptr(), &raw mut request, &raw mut refused) == 0 }
    }

    /// Writes a packet to a slot that is free; its length. Nothing is written if it is too long.
    #[inline]
    pub(in crate::net::verbs) fn fill(
        &mut self,
        slot: usize,
        head: &[u8],
        parts: &[Span],
        tail: &[u8],
    ) -> usize {
        let size = self.adapter.plan.buffer;
        let len = parts.iter().fold(head.len() + tail.len(), |len, part| len + part.len());
        let Some((mut at, _)) = self.memory.pages.at(slot * size, len).filter(|_| len <= size)
        else {
            return 0;
        };
        // SAFETY: the slot has that many bytes, and a free one is read by no request; spans are readable, and not of this
        // memory.
        unsafe {
            std::ptr::copy_nonoverlapping(head.as_ptr(), at, head.len());
            at = at.add(head.len());
            for part in parts {
                part.copy_to(at);
                at = at.add(part.len());
            }
            std::ptr::copy_nonoverlapping(tail.as_ptr(), at, tail.len());
        }
        len
    }

    /// Sends up to [`BATCH`] packets. Returns how many were taken. Progress path.
    #[inline]
    pub(in crate::net::verbs) fn post(&mut self, packets: &[Packet]) -> usize {
        const NOTHING: Piece = Piece { addr: 0, length: 0, lkey: 0 };
        // SAFETY: numbers and null pointers.
        let mut requests: [Send; BATCH] = unsafe { std::mem::zeroed() };
        let mut pieces = [NOTHING; BATCH];
        let count = packets.len().min(BATCH);
        let size = self.adapter.plan.buffer;
        for (index, packet) in packets[..count].iter().enumerate() {
            let Some((start, lkey)) = self.memory.pages.at(packet.slot * size, packet.len) else {
                return 0;
            };
            pieces[index] = Piece { addr: start as u64, length: packet.len as u32, lkey };
            let inline = if packet.len <= self.inline { c::SEND_INLINE } else { 0 };
            let request = &mut requests[index];
            request.wr_id = packet.slot as u64;
            request.sg_list = &raw mut pieces[index];
            request.num_sge = i32::from(packet.len > 0);
            match packet.target {
                None => request.opcode = c::WR_SEND_WITH_IMM,
                Some((address, key)) => {
                    request.opcode = c::WR_RDMA_WRITE;
                    (request.remote_addr, request.rkey) = (address, key);
                }
            }
            request.send_flags = c::SEND_SIGNALED | inline;
            request.imm_data = packet.word.to_be();
        }
        for index in 1..count {
            requests[index - 1].next = &raw mut requests[index];
        }
        if count == 0 {
            return 0;
        }
        let mut refused: *mut Send = std::ptr::null_mut();
        // SAFETY: the queue pair lives; requests and pieces are read before the call returns, the memory until the
        // request is over: its slot is not free before.
        let done = unsafe {
            self.adapter.send(self.pair.as_ptr(), requests.as_mut_ptr(), &raw mut refused)
        };
        if done == 0 {
            return count;
        }
        let first = requests.as_mut_ptr();
        (0..count).find(|&index| first.wrapping_add(index) == refused).unwrap_or(0)
    }
}
