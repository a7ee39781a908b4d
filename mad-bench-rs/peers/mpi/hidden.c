/* As halo, whose computation lies between posting and waiting, as in a solver that computes its inner cells while the border
 * is under way: what a library that makes progress meanwhile may take from the computation, and what it leaves for the wait.
 *
 * A: bytes of a message. B: length of the computation in microseconds. C: messages each way. */
#define HIDDEN 1
#define BY_HAND "1000", "0:32768:1000:2"
#include "halo.c"
