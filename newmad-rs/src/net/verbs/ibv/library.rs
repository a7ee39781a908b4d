//! What is used of `libibverbs.so.1`, opened at run time: its functions, and the C structures that they take.
//!
//! Types as in `infiniband/verbs.h`, whose layout is the library's ABI (a test compares them with the headers that are
//! installed). Posting and polling are no functions of the library: they are the provider's, found in the context.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use libloading::Library;

/// The library's name in every distribution.
const NAME: &str = "libibverbs.so.1";
/// `IBV_SYSFS_NAME_MAX` and `IBV_SYSFS_PATH_MAX`.
const NAME_MAX: usize = 64;
const PATH_MAX: usize = 256;

/// `struct ibv_device`.
#[repr(C)]
pub(super) struct Device {
    ops: [*const c_void; 2],
    node_type: c_int,
    transport_type: c_int,
    pub(super) name: [c_char; NAME_MAX],
    pub(super) dev_name: [c_char; NAME_MAX],
    dev_path: [c_char; PATH_MAX],
    ibdev_path: [c_char; PATH_MAX],
}

/// A function of a provider that is not called.
type Unused = *const c_void;

/// `struct ibv_context_ops`.
#[repr(C)]
pub(super) struct Operations {
    before_poll: [Unused; 11],
    pub(super) poll_cq: unsafe extern "C" fn(*mut Queue, c_int, *mut WorkCompletion) -> c_int,
    pub(super) req_notify_cq: unsafe extern "C" fn(*mut Queue, c_int) -> c_int,
    before_srq: [Unused; 7],
    pub(super) post_srq_recv:
        unsafe extern "C" fn(*mut SharedReceives, *mut Receive, *mut *mut Receive) -> c_int,
    before_send: [Unused; 4],
    pub(super) post_send: unsafe extern "C" fn(*mut QueuePair, *mut Send, *mut *mut Send) -> c_int,
    after_send: [Unused; 6],
}

/// `struct ibv_context`, without the mutex and what is behind it.
#[repr(C)]
pub(super) struct Context {
    pub(super) device: *const Device,
    pub(super) ops: Operations,
    pub(super) cmd_fd: c_int,
    pub(super) async_fd: c_int,
    pub(super) num_comp_vectors: c_int,
}

/// `struct ibv_pd`, only handed over.
pub(super) type Domain = c_void;

/// `struct ibv_comp_channel`.
#[repr(C)]
pub(super) struct Channel {
    context: *const Context,
    pub(super) fd: c_int,
    refcnt: c_int,
}

/// The beginning of `struct ibv_cq`.
#[repr(C)]
pub(super) struct Queue {
    context: *const Context,
    channel: *const Channel,
    cq_context: *const c_void,
    handle: u32,
    pub(super) cqe: c_int,
}

/// `struct ibv_srq`, only handed over.
pub(super) type SharedReceives = c_void;

/// The beginning of `struct ibv_qp`.
#[repr(C)]
pub(super) struct QueuePair {
    context: *const Context,
    qp_context: *const c_void,
    pd: *const Domain,
    send_cq: *const Queue,
    recv_cq: *const Queue,
    srq: *const SharedReceives,
    handle: u32,
    pub(super) number: u32,
}

/// `struct ibv_mr`.
#[repr(C)]
pub(super) struct Registration {
    context: *const Context,
    pd: *const Domain,
    addr: *const c_void,
    length: usize,
    handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// `struct ibv_device_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DeviceAttributes {
    before_hw_ver: [u64; 13],
    hw_ver: u32,
    pub(super) max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    device_cap_flags: c_uint,
    pub(super) max_sge: c_int,
    max_sge_rd: c_int,
    max_cq: c_int,
    pub(super) max_cqe: c_int,
    max_mr: c_int,
    max_pd: c_int,
    pub(super) max_qp_rd_atom: c_int,
    max_ee_rd_atom: c_int,
    max_res_rd_atom: c_int,
    pub(super) max_qp_init_rd_atom: c_int,
    before_max_srq_wr: [c_int; 14],
    pub(super) max_srq_wr: c_int,
    max_srq_sge: c_int,
    max_pkeys: u16,
    local_ca_ack_delay: u8,
    pub(super) phys_port_cnt: u8,
}

/// `struct ibv_port_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct PortAttributes {
    pub(super) state: c_int,
    max_mtu: c_int,
    pub(super) active_mtu: c_int,
    pub(super) gid_tbl_len: c_int,
    before_lid: [u32; 4],
    pkey_tbl_len: u16,
    pub(super) lid: u16,
    sm_lid: u16,
    before_link_layer: [u8; 8],
    pub(super) link_layer: u8,
    flags: u8,
    port_cap_flags2: u16,
}

/// `struct ibv_async_event`.
#[repr(C)]
pub(super) struct Event {
    /// A queue pair, or the number of a port.
    pub(super) element: *mut QueuePair,
    pub(super) kind: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct WorkCompletion {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    pub(super) opcode: c_int,
    vendor_err: u32,
    pub(super) byte_len: u32,
    /// In the network's order.
    pub(super) imm_data: u32,
    pub(super) qp_num: u32,
    src_qp: u32,
    pub(super) wc_flags: c_uint,
    pkey_index: u16,
    slid: u16,
    sl: u8,
    dlid_path_bits: u8,
}

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub(super) struct Receive {
    pub(super) wr_id: u64,
    pub(super) next: *mut Receive,
    pub(super) sg_list: *mut Piece,
    pub(super) num_sge: c_int,
}

/// `struct ibv_send_wr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Send {
    pub(super) wr_id: u64,
    pub(super) next: *mut Send,
    pub(super) sg_list: *mut Piece,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_int,
    pub(super) send_flags: c_uint,
    /// In the network's order.
    pub(super) imm_data: u32,
    /// `wr.rdma`.
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    rest: [u64; 9],
}

/// `struct ibv_srq_init_attr`.
#[repr(C)]
pub(super) struct SharedReceivesAttributes {
    pub(super) context: *mut c_void,
    pub(super) max_wr: u32,
    pub(super) max_sge: u32,
    pub(super) limit: u32,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Capacity {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct QueuePairInit {
    pub(super) context: *mut c_void,
    pub(super) send_cq: *mut Queue,
    pub(super) recv_cq: *mut Queue,
    pub(super) srq: *mut SharedReceives,
    pub(super) cap: Capacity,
    pub(super) kind: c_int,
    pub(super) sq_sig_all: c_int,
}

/// `struct ibv_ah_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Path {
    pub(super) dgid: [u64; 2],
    pub(super) flow_label: u32,
    pub(super) sgid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    /// `struct ibv_global_route` ends here, at a multiple of eight bytes.
    pub(super) padding: u8,
    pub(super) dlid: u16,
    pub(super) sl: u8,
    pub(super) src_path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port_num: u8,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct QueuePairAttributes {
    pub(super) state: c_int,
    pub(super) cur_qp_state: c_int,
    pub(super) path_mtu: c_int,
    pub(super) path_mig_state: c_int,
    pub(super) qkey: u32,
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) dest_qp_num: u32,
    pub(super) access_flags: c_uint,
    pub(super) cap: Capacity,
    pub(super) path: Path,
    pub(super) alternative_path: Path,
    pub(super) pkey_index: u16,
    pub(super) alt_pkey_index: u16,
    pub(super) en_sqd_async_notify: u8,
    pub(super) sq_draining: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) port_num: u8,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) alt_port_num: u8,
    pub(super) alt_timeout: u8,
    pub(super) rate_limit: u32,
}

/// Bits and numbers of `infiniband/verbs.h`, under its names.
pub(super) mod constant {
    use super::{c_int, c_uint};

    pub(crate) const QPS_INIT: c_int = 1;
    pub(crate) const QPS_RTR: c_int = 2;
    pub(crate) const QPS_RTS: c_int = 3;
    pub(crate) const QPS_ERR: c_int = 6;
    pub(crate) const QPT_RC: c_int = 2;
    pub(crate) const QP_STATE: c_int = 1 << 0;
    pub(crate) const QP_ACCESS_FLAGS: c_int = 1 << 3;
    pub(crate) const QP_PKEY_INDEX: c_int = 1 << 4;
    pub(crate) const QP_PORT: c_int = 1 << 5;
    pub(crate) const QP_AV: c_int = 1 << 7;
    pub(crate) const QP_PATH_MTU: c_int = 1 << 8;
    pub(crate) const QP_TIMEOUT: c_int = 1 << 9;
    pub(crate) const QP_RETRY_CNT: c_int = 1 << 10;
    pub(crate) const QP_RNR_RETRY: c_int = 1 << 11;
    pub(crate) const QP_RQ_PSN: c_int = 1 << 12;
    pub(crate) const QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    pub(crate) const QP_MIN_RNR_TIMER: c_int = 1 << 15;
    pub(crate) const QP_SQ_PSN: c_int = 1 << 16;
    pub(crate) const QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub(crate) const QP_DEST_QPN: c_int = 1 << 20;
    pub(crate) const ACCESS_LOCAL_WRITE: c_int = 1;
    pub(crate) const ACCESS_REMOTE_WRITE: c_int = 1 << 1;
    pub(crate) const ACCESS_REMOTE_READ: c_int = 1 << 2;
    pub(crate) const PORT_ACTIVE: c_int = 4;
    pub(crate) const LINK_LAYER_ETHERNET: u8 = 2;
    pub(crate) const WR_RDMA_WRITE: c_int = 0;
    pub(crate) const WR_SEND_WITH_IMM: c_int = 3;
    pub(crate) const WR_RDMA_READ: c_int = 4;
    pub(crate) const SEND_SIGNALED: c_uint = 1 << 1;
    pub(crate) const SEND_INLINE: c_uint = 1 << 3;
    pub(crate) const WC_SUCCESS: c_int = 0;
    pub(crate) const WC_WR_FLUSH_ERR: c_int = 5;
    pub(crate) const WC_RETRY_EXC_ERR: c_int = 12;
    pub(crate) const WC_WITH_IMM: c_uint = 1 << 1;
    pub(crate) const EVENT_CQ_ERR: c_int = 0;
    pub(crate) const EVENT_QP_FATAL: c_int = 1;
    pub(crate) const EVENT_QP_REQ_ERR: c_int = 2;
    pub(crate) const EVENT_QP_ACCESS_ERR: c_int = 3;
    pub(crate) const EVENT_DEVICE_FATAL: c_int = 8;
    pub(crate) const EVENT_PORT_ERR: c_int = 10;
    pub(crate) const EVENT_SRQ_ERR: c_int = 14;
    pub(crate) const EVENT_QP_LAST_WQE_REACHED: c_int = 16;
}

/// Declares the table of functions and how it is filled.
macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// See the module.
        pub(crate) struct Ibverbs {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        fn functions(library: &Library) -> Result<Ibverbs, String> {
            Ok(Ibverbs {
                $($field: {
                    let name: &CStr = $name;
                    // SAFETY: the type is the one that verbs.h declares for the name.
                    let found = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> $result>(name) };
                    *found.map_err(|_| format!("{NAME} has no function {}", name.to_string_lossy()))?
                },)*
            })
        }
    };
}

functions! {
    get_device_list = c"ibv_get_device_list": fn(*mut c_int) -> *mut *mut Device;
    free_device_list = c"ibv_free_device_list": fn(*mut *mut Device) -> ();
    open_device = c"ibv_open_device": fn(*mut Device) -> *mut Context;
    close_device = c"ibv_close_device": fn(*mut Context) -> c_int;
    query_device = c"ibv_query_device": fn(*mut Context, *mut DeviceAttributes) -> c_int;
    query_port = c"ibv_query_port": fn(*mut Context, u8, *mut PortAttributes) -> c_int;
    query_gid = c"ibv_query_gid": fn(*mut Context, u8, c_int, *mut [u8; 16]) -> c_int;
    alloc_pd = c"ibv_alloc_pd": fn(*mut Context) -> *mut Domain;
    dealloc_pd = c"ibv_dealloc_pd": fn(*mut Domain) -> c_int;
    reg_mr = c"ibv_reg_mr": fn(*mut Domain, *mut c_void, usize, c_int) -> *mut Registration;
    dereg_mr = c"ibv_dereg_mr": fn(*mut Registration) -> c_int;
    create_comp_channel = c"ibv_create_comp_channel": fn(*mut Context) -> *mut Channel;
    destroy_comp_channel = c"ibv_destroy_comp_channel": fn(*mut Channel) -> c_int;
    create_cq = c"ibv_create_cq": fn(*mut Context, c_int, *mut c_void, *mut Channel, c_int) -> *mut Queue;
    destroy_cq = c"ibv_destroy_cq": fn(*mut Queue) -> c_int;
    ack_cq_events = c"ibv_ack_cq_events": fn(*mut Queue, c_uint) -> ();
    get_cq_event = c"ibv_get_cq_event": fn(*mut Channel, *mut *mut Queue, *mut *mut c_void) -> c_int;
    create_srq = c"ibv_create_srq": fn(*mut Domain, *mut SharedReceivesAttributes) -> *mut SharedReceives;
    destroy_srq = c"ibv_destroy_srq": fn(*mut SharedReceives) -> c_int;
    create_qp = c"ibv_create_qp": fn(*mut Domain, *mut QueuePairInit) -> *mut QueuePair;
    modify_qp = c"ibv_modify_qp": fn(*mut QueuePair, *mut QueuePairAttributes, c_int) -> c_int;
    destroy_qp = c"ibv_destroy_qp": fn(*mut QueuePair) -> c_int;
    get_async_event = c"ibv_get_async_event": fn(*mut Context, *mut Event) -> c_int;
    ack_async_event = c"ibv_ack_async_event": fn(*mut Event) -> ();
}

/// The library, opened for ever at the first call: its providers do not bear to be unloaded.
pub(crate) fn library() -> Result<&'static Ibverbs, String> {
    static LIBRARY: OnceLock<Result<Ibverbs, String>> = OnceLock::new();
    let opened = LIBRARY.get_or_init(|| {
        // SAFETY: its initialisers, and those of the libraries that it needs, set up their own data.
        match unsafe { Library::new(NAME) } {
            Ok(library) => functions(&ManuallyDrop::new(library)),
            Err(e) => {
                let why = e.source().map_or_else(|| e.to_string(), ToString::to_string);
                Err(format!(
                    "{NAME} cannot be opened ({why}): apt install libibverbs1 ibverbs-providers"
                ))
            }
        }
    });
    opened.as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};
    use std::process::Command;

    /// `name`, offset or size by this file, and the same in C.
    macro_rules! layout {
        ($($ours:ty, $c:literal: size $($field:ident $cfield:literal)*;)*) => {
            [$((concat!("sizeof(struct ", $c, ")"), size_of::<$ours>()),
               $((concat!("offsetof(struct ", $c, ", ", $cfield, ")"), offset_of!($ours, $field)),)*)*]
        };
    }
    macro_rules! offsets {
        ($($ours:ty, $c:literal: $($field:ident $cfield:literal)*;)*) => {
            [$($((concat!("offsetof(struct ", $c, ", ", $cfield, ")"), offset_of!($ours, $field)),)*)*]
        };
    }

    #[test]
    fn the_structures_are_those_of_the_installed_headers() {
        let whole = layout! {
            DeviceAttributes, "ibv_device_attr": size max_qp "max_qp" max_qp_wr "max_qp_wr" max_sge "max_sge"
                max_cqe "max_cqe" max_qp_rd_atom "max_qp_rd_atom" max_qp_init_rd_atom "max_qp_init_rd_atom"
                max_srq_wr "max_srq_wr" phys_port_cnt "phys_port_cnt";
            PortAttributes, "ibv_port_attr": size state "state" active_mtu "active_mtu" gid_tbl_len "gid_tbl_len"
                lid "lid" link_layer "link_layer";
            Device, "ibv_device": size name "name" dev_name "dev_name";
            Operations, "ibv_context_ops": size poll_cq "poll_cq" req_notify_cq "req_notify_cq"
                post_srq_recv "post_srq_recv" post_send "post_send";
            Channel, "ibv_comp_channel": size fd "fd";
            Registration, "ibv_mr": size lkey "lkey" rkey "rkey";
            Event, "ibv_async_event": size kind "event_type";
            WorkCompletion, "ibv_wc": size wr_id "wr_id" status "status" opcode "opcode" byte_len "byte_len"
                imm_data "imm_data" qp_num "qp_num" wc_flags "wc_flags";
            Piece, "ibv_sge": size addr "addr" length "length" lkey "lkey";
            Receive, "ibv_recv_wr": size next "next" sg_list "sg_list" num_sge "num_sge";
            Send, "ibv_send_wr": size next "next" sg_list "sg_list" num_sge "num_sge" opcode "opcode"
                send_flags "send_flags" imm_data "imm_data" remote_addr "wr.rdma.remote_addr" rkey "wr.rdma.rkey";
            SharedReceivesAttributes, "ibv_srq_init_attr": size max_wr "attr.max_wr" limit "attr.srq_limit";
            Capacity, "ibv_qp_cap": size max_inline_data "max_inline_data";
            QueuePairInit, "ibv_qp_init_attr": size send_cq "send_cq" srq "srq" cap "cap" kind "qp_type"
                sq_sig_all "sq_sig_all";
            Path, "ibv_ah_attr": size dgid "grh.dgid" sgid_index "grh.sgid_index" hop_limit "grh.hop_limit"
                dlid "dlid" is_global "is_global" port_num "port_num";
            QueuePairAttributes, "ibv_qp_attr": size state "qp_state" path_mtu "path_mtu" rq_psn "rq_psn"
                sq_psn "sq_psn" dest_qp_num "dest_qp_num" access_flags "qp_access_flags" path "ah_attr"
                pkey_index "pkey_index" max_rd_atomic "max_rd_atomic" max_dest_rd_atomic "max_dest_rd_atomic"
                min_rnr_timer "min_rnr_timer" port_num "port_num" timeout "timeout" retry_cnt "retry_cnt"
                rnr_retry "rnr_retry";
        };
        let beginnings = offsets! {
            Context, "ibv_context": device "device" ops "ops" cmd_fd "cmd_fd" async_fd "async_fd"
                num_comp_vectors "num_comp_vectors";
            Queue, "ibv_cq": cqe "cqe";
            QueuePair, "ibv_qp": number "qp_num";
        };
        let constants = constants();
        let ours: Vec<(&str, usize)> =
            whole.into_iter().chain(beginnings).chain(constants).collect();
        let prints: String = ours
            .iter()
            .map(|(expression, _)| format!("printf(\"%zu\\n\", (size_t)({expression}));\n"))
            .collect();
        let dir = std::env::temp_dir().join(format!("newmad-verbs-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (source, program) = (dir.join("probe.c"), dir.join("probe"));
        let text = format!(
            "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\nint main(void) {{\n{prints}return 0;\n}}\n"
        );
        std::fs::write(&source, text).unwrap();
        let built = Command::new("cc").arg("-o").args([&program, &source]).output();
        let Ok(true) = built.as_ref().map(|built| built.status.success()) else {
            eprintln!(
                "SKIPPED: no C compiler, or no headers (apt install libibverbs-dev): {built:?}"
            );
            return;
        };
        let printed = Command::new(&program).output().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        let theirs = String::from_utf8(printed.stdout).unwrap();
        for ((expression, ours), theirs) in ours.iter().zip(theirs.lines()) {
            assert_eq!(ours.to_string(), theirs, "{expression}");
        }
        assert_eq!(ours.len(), theirs.lines().count());
    }

    fn constants() -> Vec<(&'static str, usize)> {
        macro_rules! list {
            ($($name:ident)*) => { vec![$((concat!("IBV_", stringify!($name)), constant::$name as usize)),*] };
        }
        list! {
            QPS_INIT QPS_RTR QPS_RTS QPS_ERR QPT_RC QP_STATE QP_ACCESS_FLAGS QP_PKEY_INDEX QP_PORT QP_AV QP_PATH_MTU
            QP_TIMEOUT QP_RETRY_CNT QP_RNR_RETRY QP_RQ_PSN QP_MAX_QP_RD_ATOMIC QP_MIN_RNR_TIMER QP_SQ_PSN
            QP_MAX_DEST_RD_ATOMIC QP_DEST_QPN ACCESS_LOCAL_WRITE ACCESS_REMOTE_WRITE ACCESS_REMOTE_READ PORT_ACTIVE
            LINK_LAYER_ETHERNET WR_RDMA_WRITE WR_RDMA_READ WR_SEND_WITH_IMM
            SEND_SIGNALED SEND_INLINE WC_SUCCESS WC_WR_FLUSH_ERR WC_RETRY_EXC_ERR WC_WITH_IMM EVENT_CQ_ERR
            EVENT_QP_FATAL EVENT_QP_REQ_ERR EVENT_QP_ACCESS_ERR EVENT_DEVICE_FATAL EVENT_PORT_ERR EVENT_SRQ_ERR
            EVENT_QP_LAST_WQE_REACHED
        }
    }
}
