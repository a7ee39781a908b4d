"""Green threads of marcel in gdb, in a live process or a core file.

    (gdb) source tools/gdb/marcel.py
    (gdb) marcel threads          every thread: number, name, state, what it waits for, where it lives
    (gdb) marcel bt 12            backtrace of thread 12
    (gdb) marcel bt all           of every thread

gdb knows kernel threads. A suspended green thread has none: its registers are in its control block and its frames on
its own stack, so an unwinder is registered here that, while a command wants it, says that the innermost frame of the
selected kernel thread was called from there. No register is written: that is why it works on core files.

A core file has to be the kernel's: gdb's own `gcore` (generate-core-file) stops at the guards between stacks and leaves
them out.

The program needs its symbol table (`strip = "debuginfo"` at most) and its unwind tables, but no type information:
where things are is in marcel-rs/src/tcb/debug_info.rs, whose VERSION must be the one here.
"""

import collections
import os
import re
import struct
import time

import gdb
import gdb.unwinder

VERSION = 1
FREE, NEW, STARTED, KERNEL = range(4)
PARKED = 2
LOOK = struct.Struct("<8QIIQQQQII")
Look = collections.namedtuple(
    "Look",
    "moves pc sp fp reason reason_len since next number phase stack_low stack_high name name_len tid vp",
)

# Names of pc, stack pointer and frame pointer.
REGISTERS = {"i386:x86-64": ("rip", "rsp", "rbp"), "aarch64": ("pc", "sp", "x29")}


def memory(address, length):
    return bytes(gdb.selected_inferior().read_memory(address, length))


def text(address, length):
    if address == 0:
        return ""
    try:
        return memory(address, min(length, 256)).decode(errors="replace")
    except gdb.MemoryError:
        return "?"  # a core file need not hold the program's constants


def root():
    """Address of MARCEL_THREADS."""
    try:
        found = gdb.execute("info address MARCEL_THREADS", to_string=True)
    except gdb.error:
        found = ""
    address = re.search(r"0x[0-9a-f]+", found)
    if not address:
        raise gdb.GdbError(
            "no symbol MARCEL_THREADS: the program does not use marcel, is stripped, or does not run yet"
        )
    return int(address.group(), 16)


class Thread:
    def __init__(self, look, parked):
        self.look = look
        self.number = look.number
        self.green = look.phase == STARTED
        if look.phase == NEW:
            self.state = "new"
        elif look.moves % 2:
            self.state = "running"
        elif look.phase == KERNEL or parked:
            self.state = "waiting"
        else:
            self.state = "ready"
        self.suspended = self.green and self.state != "running" and look.sp != 0

    def line(self, now):
        look = self.look
        if look.phase == KERNEL:
            name = "kernel thread %d" % look.tid
        else:
            name = "'%s'" % text(look.name, look.name_len) if look.name else "<unnamed>"
        line = "thread %d %s %s" % (self.number, name, self.state)
        if self.state == "waiting":
            line += " (%s)" % text(look.reason, look.reason_len)
            if now is not None:
                line += " for %.3f s" % max(0, now - look.since / 1e9)
        if self.green:
            kind = "rx" if look.vp >> 31 else "vp"
            line += ", %s%d (kernel thread %d)" % (kind, look.vp & 0x7FFFFFFF, look.tid)
            line += ", stack 0x%x-0x%x" % (look.stack_low, look.stack_high)
        return line


def threads():
    version, look_at, park_at, _, block = struct.unpack("<IIIIQ", memory(root(), 24))
    if version != VERSION:
        raise gdb.GdbError("the program's marcel has layout %d, this script %d" % (version, VERSION))
    found = []
    while block:
        look = Look._make(LOOK.unpack(memory(block + look_at, LOOK.size)))
        # A kernel thread that does not wait for anything of marcel's is gdb's to show.
        if look.phase != FREE and not (look.phase == KERNEL and look.moves % 2):
            (parked,) = struct.unpack("<I", memory(block + park_at, 4))
            found.append(Thread(look, parked == PARKED))
        block = look.next
    return sorted(found, key=lambda thread: thread.number)


def now():
    """Seconds of the clock that waits are timed by, if the process lives here."""
    inferior = gdb.selected_inferior()
    kind = getattr(getattr(inferior, "connection", None), "type", "native")
    if kind != "native" or not os.path.exists("/proc/%d" % inferior.pid):
        return None
    return time.monotonic()


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class Unwinder(gdb.unwinder.Unwinder):
    """Puts a green thread below the innermost frame of the selected kernel thread."""

    def __init__(self):
        super().__init__("marcel")
        self.look = None

    def __call__(self, frame):
        look = self.look
        if look is None or frame.level() != 0:
            return None
        machine = frame.architecture().name()
        pc, sp, fp = next(r for name, r in REGISTERS.items() if machine.startswith(name))
        here = frame.read_register(sp)
        # A frame is inner to those it was called from: below the thread's own.
        info = frame.create_unwind_info(FrameId(gdb.Value(look.sp - 64).cast(here.type), frame.read_register(pc)))
        for name, value in ((pc, look.pc), (sp, look.sp), (fp, look.fp)):
            info.add_saved_register(name, gdb.Value(value).cast(frame.read_register(name).type))
        return info

    def backtrace(self, look):
        self.look = look
        gdb.invalidate_cached_frames()
        try:
            lines = gdb.execute("backtrace 64", to_string=True).splitlines()
        finally:
            self.look = None
            gdb.invalidate_cached_frames()
        # The first is where the kernel thread is. Without it, the numbers begin at 0 again.
        while lines and not lines[0].startswith("#1 "):
            lines.pop(0)
        number = lambda found: "#%-3d" % (int(found.group(1)) - 1)
        return "\n".join(re.sub(r"^#(\d+) +", number, line) for line in lines)


UNWINDER = Unwinder()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)


def running(look):
    """Backtrace of the kernel thread that carries a running thread."""
    selected = gdb.selected_thread()
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] == look.tid or thread.ptid[2] == look.tid:
            thread.switch()
            try:
                return gdb.execute("backtrace 64", to_string=True).rstrip()
            finally:
                selected.switch()
    return "(kernel thread %d is not there)" % look.tid


def backtrace(thread):
    if thread.suspended:
        return UNWINDER.backtrace(thread.look)
    if thread.state == "new":
        return "(it has not run yet)"
    if thread.state in ("running", "waiting"):
        return running(thread.look)
    return "(its registers are not known)"


class Marcel(gdb.Command):
    """Green threads of marcel."""

    def __init__(self):
        super().__init__("marcel", gdb.COMMAND_STACK, prefix=True)


class Threads(gdb.Command):
    """List every green thread, and each kernel thread that waits for one."""

    def __init__(self):
        super().__init__("marcel threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        at = now()
        for thread in threads():
            print(thread.line(at))


class Backtrace(gdb.Command):
    """Backtrace of the thread with the given number, or of all."""

    def __init__(self):
        super().__init__("marcel bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = argument.strip()
        if wanted != "all" and not wanted.isdigit():
            raise gdb.GdbError("marcel bt takes a thread's number (see `marcel threads`) or all")
        chosen = [t for t in threads() if wanted == "all" or t.number == int(wanted)]
        if not chosen:
            raise gdb.GdbError("there is no thread %s" % wanted)
        at = now()
        for thread in chosen:
            print(thread.line(at))
            print(backtrace(thread))
            print()


Marcel()
Threads()
Backtrace()
