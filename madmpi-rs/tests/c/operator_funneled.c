/* np: 2 */
/* As operator_calls, asked for MPI_THREAD_FUNNELED. */
#define LEVEL MPI_THREAD_FUNNELED
#include "operator_calls.c"
