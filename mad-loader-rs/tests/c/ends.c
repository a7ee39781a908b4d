/* How a rank ends: the first argument says. */
#include <err.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what) { printf("%s\n", what); }
static void handler(void) { say("handler"); }
static void again(void) { say("again"); exit(7); }
static void status(int code, void *word) { printf("status %d %s\n", code, (char *)word); }
static void late(void) { say("late"); }
static void registers(void) { say("registers"); atexit(late); }
__attribute__((destructor)) static void destruct(void) { say("destructor"); }

static int deep(int n) {
    volatile char frame[1000];
    frame[0] = (char)n;
    if (n == 0) exit(3);
    return deep(n - 1) + frame[0];
}

static void *thread(void *code) { usleep(20000); exit((int)(long)code); }
static void *quick_thread(void *code) { usleep(20000); quick_exit((int)(long)code); }
static void *reader(void *unused) {
    int ends[2];
    char word[8];
    return pipe(ends) ? 0 : fgets(word, sizeof word, fdopen(ends[0], "r"));
}
static void ends_at_once(int unused) { _exit(4); }
static void ends_well(int unused) { exit(0); }
static void ends_well_at_once(int unused) { _exit(0); }
/* A child has a copy of what is buffered when it is made, and writes it too. */
static void write_at_once(const char *what) { if (write(1, what, strlen(what)) < 0) abort(); }
static void *writer(void *word) { usleep(20000); write_at_once(word); return word; }
static void *other(void *word) { usleep(20000); say(word); return word; }

int main(int argc, char **argv) {
    pthread_t id;
    const char *way = argv[1];
    if (!strcmp(way, "return")) { atexit(handler); return 2; }
    if (!strcmp(way, "deep")) { atexit(handler); on_exit(status, "word"); return deep(1000); }
    if (!strcmp(way, "nested")) { atexit(handler); atexit(again); exit(1); }
    if (!strcmp(way, "registers")) { atexit(registers); exit(0); }
    if (!strcmp(way, "quick")) { atexit(handler); at_quick_exit(late); quick_exit(5); }
    if (!strcmp(way, "buffered")) { printf("no newline"); exit(0); }
    if (!strcmp(way, "pthread_exit")) { atexit(handler); pthread_create(&id, 0, other, "other"); pthread_exit(0); }
    if (!strcmp(way, "join")) {
        void *value;
        pthread_create(&id, 0, other, "joined");
        pthread_join(id, &value);
        return strcmp(value, "joined");
    }
    if (!strcmp(way, "thread")) { pthread_create(&id, 0, thread, (void *)6); sleep(100); }
    if (!strcmp(way, "thread well")) { pthread_create(&id, 0, thread, (void *)0); sleep(100); }
    if (!strcmp(way, "quick thread")) { at_quick_exit(late); pthread_create(&id, 0, quick_thread, (void *)0); sleep(100); }
    if (!strcmp(way, "_exit well")) _exit(0);
    if (!strcmp(way, "signal")) { signal(SIGTERM, ends_well); kill(getpid(), SIGTERM); sleep(100); }
    if (!strcmp(way, "signal at once")) { signal(SIGTERM, ends_well_at_once); kill(getpid(), SIGTERM); sleep(100); }
    if (!strcmp(way, "reader")) { pthread_create(&id, 0, reader, 0); usleep(20000); return 0; }
    if (!strcmp(way, "fork")) { /* what a child waits for concerns no rank */
        int ends[2];
        pid_t child, process = getpid();
        if (atoi(argv[2]) > 0) {
            for (int i = 0; i < 20; i++) usleep(20000);
            return getpid() == process ? (say("once"), 0) : (say("in the child"), 9);
        }
        if (pipe(ends) || (child = fork()) == -1) return 8;
        if (child == 0) {
            struct pollfd one = {ends[0], POLLIN, 0};
            usleep(100000);
            poll(&one, 1, 100);
            sched_yield();
            _exit(waitpid(-1, 0, 0) == -1 ? 7 : 6);
        }
        int ended = -1;
        return waitpid(child, &ended, 0) != child || !WIFEXITED(ended) || WEXITSTATUS(ended) != 7;
    }
    if (!strcmp(way, "child")) { /* it ends as a process, however it does */
        int ended = -1;
        pid_t child;
        if (atoi(argv[2]) > 0) {
            for (int i = 0; i < 20; i++) usleep(20000);
            return write_at_once("once\n"), 0;
        }
        pthread_create(&id, 0, writer, "other\n");
        for (int how = 0; how < 3; how++) {
            if ((child = fork()) == -1) return 8;
            if (child == 0 && how == 0) return 0;
            if (child == 0 && how == 1) pthread_exit(0);
            if (child == 0) return 5;
            if (waitpid(child, &ended, 0) != child || !WIFEXITED(ended) || WEXITSTATUS(ended) != (how == 2 ? 5 : 0)) return 1 + how;
        }
        return 0;
    }
    if (!strcmp(way, "reader errx")) { pthread_create(&id, 0, reader, 0); usleep(20000); errx(9, "a word"); }
    if (!strcmp(way, "reader thread")) {
        pthread_create(&id, 0, reader, 0);
        pthread_create(&id, 0, thread, (void *)6);
        sleep(100);
    }
    if (!strcmp(way, "_exit in a handler")) { /* which comes while memory is allocated */
        struct itimerval soon = {{0, 0}, {0, 300 + 37 * (getpid() % 19)}};
        signal(SIGALRM, ends_at_once);
        setitimer(ITIMER_REAL, &soon, 0);
        for (size_t i = 0;; i++) free(malloc(i % 5 ? i % 3000 + 1 : 3 << 20));
    }
    if (!strcmp(way, "wide")) return atoi(argv[2]) ? 3 : 256;
    if (!strcmp(way, "_exit")) { atexit(handler); _exit(4); }
    if (!strcmp(way, "errx")) { atexit(handler); errx(9, "a word"); }
    if (!strcmp(way, "errx well")) errx(0, "a word");
    if (!strcmp(way, "errx 256")) errx(256, "a word");
    if (!strcmp(way, "errx of a child")) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) errx(8, "a word");
        return waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 8;
    }
    if (!strcmp(way, "abort")) { atexit(handler); abort(); }
    return 99;
}
