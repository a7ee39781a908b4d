//! An I/O manager that the thread scheduler calls: it polls, or blocks on spare kernel threads, by the load.
