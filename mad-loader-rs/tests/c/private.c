/* A library with state, which is private to each rank or not: `inner` is used by `outer`, both by the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined INNER || defined OUTER
int inner_next(void);
extern int inner_value;
#endif

#ifdef INNER
int inner_value = 100, inner_started;
static int count;
static void end(void) { printf("inner ends with %d\n", count); }
__attribute__((constructor)) static void start(int argc, char **argv) { inner_started = argc; }
__attribute__((destructor)) static void stop(void) { printf("inner stops with %d\n", inner_value); }
int inner_next(void) {
    if (!count) atexit(end);
    return ++count;
}
int inner_read(void) { return inner_value; }
#ifdef LOCALS
__thread int inner_local;
int inner_locals(void) { return ++inner_local; }
#endif

#elif defined OUTER
static int (*function)(void) = inner_next;
int outer_next(void) { return 1000 * inner_value + function(); }

#else
extern int inner_value, inner_started;
int inner_next(void), inner_read(void), outer_next(void);
static int (*pointer)(void) = inner_read;
int main(int argc, char **argv) {
    int rank = atoi(argv[1]);
    inner_value += rank;
    for (int i = 0; i < 5; i++) {
        inner_next();
        usleep(2000);
    }
    printf("%d: %d %d %d, started %d\n", rank, outer_next(), inner_read(), pointer(), inner_started);
    return 0;
}
#endif
