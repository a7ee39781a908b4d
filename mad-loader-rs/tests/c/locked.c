/* A library that waits while it holds a mutex of its own, and a program that calls it. */
#ifdef LIBRARY
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int count;

int locked(int sleeps) {
    pthread_mutex_lock(&mutex);
    int before = count;
    if (sleeps) usleep(100);
    else sched_yield();
    count = before + 1;
    pthread_mutex_unlock(&mutex);
    return before;
}
#else
#include <stdio.h>
#include <sched.h>

int locked(int sleeps);

int main(void) {
    int last = 0;
    for (int i = 0; i < 100; i++) {
        last = locked(i % 2);
        sched_yield();
    }
    printf("%s\n", last >= 99 ? "all" : "less");
    return 0;
}
#endif
