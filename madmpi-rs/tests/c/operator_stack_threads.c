/* np: 2 */
/* As operator_stack, asked for MPI_THREAD_MULTIPLE. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "operator_stack.c"
