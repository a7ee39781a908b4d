//! Communication core: tags, matching, eager and rendezvous protocols over local, shm and tcp drivers.
