/* A long chain of ranks: each adds to its own variables, often. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
static int values[1000];
int total;
int main(int argc, char **argv) {
    int rank = atoi(argv[1]);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 1000; i++) values[i] += rank, total += 1;
        sched_yield();
    }
    for (int i = 0; i < 1000; i++) if (values[i] != 50 * rank) return 1;
    return total != 50000;
}
