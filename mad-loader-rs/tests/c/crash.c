/* Rank 2 goes wrong, the others sleep. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int *nowhere;
int deepest;

__attribute__((noinline)) static int broken(const char *how, volatile int n) {
    if (strstr(how, "segv")) return *nowhere;
    if (!strcmp(how, "fpe")) return n / (n - n);
    if (!strcmp(how, "assert")) assert(n == 1000);
    if (!strcmp(how, "overflow")) {
        volatile char frame[4096];
        frame[n % 4096] = (char)n;
        return broken(how, n + 1) + frame[0];
    }
    return n;
}

__attribute__((noinline)) static int calculate(const char *how, int n) { return broken(how, n) + 1; }

static void *thread(void *how) { return (void *)(long)calculate(how, 1); }

int main(int argc, char **argv) {
    int is_last = !strcmp(argv[1], "2");
    if (is_last && !strcmp(argv[2], "segv on a thread")) {
        pthread_t id;
        pthread_create(&id, 0, thread, argv[2]);
        pthread_join(id, 0);
    }
    if (!strcmp(argv[2], "segv of all")) {
        /* All at the same moment. */
        struct timespec now;
        do clock_gettime(CLOCK_MONOTONIC, &now); while (now.tv_nsec % 200000000 < 199900000);
        return calculate(argv[2], argc);
    }
    if (is_last) return calculate(argv[2], argc);
    sleep(20);
    return 0;
}
