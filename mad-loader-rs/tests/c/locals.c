/* Thread-local variables of a rank, on whatever kernel thread it goes on; of its kernel threads; their alignment. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef PROCESS
const char linker[] __attribute__((section(".interp"))) = "/lib64/ld-linux-x86-64.so.2";
#endif

static int target = 7;
static __thread int hidden = 5;
static __thread int *pointer = &target;
static __thread struct { _Alignas(64) char bytes[64]; } aligned;
__thread int exported;

static void *other(void *word) {
    int fresh = hidden == 5 && exported == 0 && pointer == &target;
    hidden = exported = -1;
    return fresh && (uintptr_t)aligned.bytes % 64 == 0 ? word : 0;
}

int main(int argc, char **argv) {
    int rank = atoi(argv[1]), aligns = (uintptr_t)aligned.bytes % 64 == 0, threads = 0;
    int *address = &exported;
    hidden += rank;
    exported += rank * 10;
    *pointer += rank;
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        hidden += 100;
        exported += 1000;
    }
#ifdef THREADS
    pthread_t id;
    void *value;
    pthread_create(&id, 0, other, "");
    pthread_join(id, &value);
    threads = value != 0;
#endif
    printf("%d: %d %d %d, threads %d, same %d, aligned %d\n", rank, hidden, exported, target, threads, address == &exported,
           aligns);
    return 0;
}
