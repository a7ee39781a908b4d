/* Rank 0 makes a way, ranks 1 and up go it, all on one virtual processor. The way is argument 1, the rank argument 2, two
   descriptors of the host process arguments 3 and 4. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    return 1;
}

#define SIZE 300000
static char data[SIZE], more[SIZE];

/* What is to end in vain has: the writer may write. (The environment is shared, and this is one virtual processor.) */
static void ready(void) { setenv("WAITS_READY", "1", 1); }

/* Waits where the process can have no more descriptors; the byte, or a negative number that names the first wait that fails. */
static int full(int in) {
    struct pollfd one = {in, POLLIN, 0};
    struct timeval time = {0, 1000};
    struct rlimit before, limit;
    int next = dup(in), got;
    char byte;
    close(next);
    getrlimit(RLIMIT_NOFILE, &before);
    limit = before;
    limit.rlim_cur = next; /* the lowest number that is free */
    if (setrlimit(RLIMIT_NOFILE, &limit) || dup(in) != -1 || errno != EMFILE) return -1;
    got = poll(&one, 1, 20) != 0 ? -2 : poll(0, 0, 1) != 0 ? -3 : select(0, 0, 0, 0, &time) != 0 ? -4 : 0;
    ready();
    if (got == 0) got = read(in, &byte, 1) == 1 ? byte : -5;
    setrlimit(RLIMIT_NOFILE, &before);
    return got;
}

/* Sets of more descriptors than an fd_set has, and of fewer; the byte. */
static int wide(int in) {
    struct rlimit limit;
    uint64_t *set = calloc(64, 8), *small = malloc(8); /* of 4096, of 64 */
    struct timeval time = {0, 20000};
    volatile nfds_t many = 1ul << 31;
    char byte;
    /* A set at the end of the memory there is, and a count of more descriptors than there can be. */
    char *pages = mmap(0, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fd_set *last = (fd_set *)(pages + 4096 - sizeof(fd_set));
    mprotect(pages + 4096, 4096, PROT_NONE);
    FD_SET(in, last);
    if (select(1 << 30, last, 0, 0, &time) != 0 || FD_ISSET(in, last)) return -7;
    time.tv_usec = 20000;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 4096) return ready(), 'w'; /* it cannot have so many */
    limit.rlim_cur = 4096;
    if (setrlimit(RLIMIT_NOFILE, &limit) || dup2(in, 4000) != 4000) return -1;
    set[4000 / 64] = 1ull << 4000 % 64;
    if (select(4001, (fd_set *)set, 0, 0, &time) != 0 || set[4000 / 64] != 0) return -2;
    ready();
    set[4000 / 64] = 1ull << 4000 % 64;
    time.tv_sec = 50;
    if (select(4001, (fd_set *)set, 0, 0, &time) != 1 || set[4000 / 64] != 1ull << 4000 % 64) return -3;
    *small = 1ull << in;
    if (in < 64 && (select(in + 1, (fd_set *)small, 0, 0, &time) != 1 || *small != 1ull << in)) return -4;
    if (poll((struct pollfd *)small, many, 0) != -1 || errno != EINVAL) return -5;
    free(set), free(small);
    return read(in, &byte, 1) == 1 ? byte : -6;
}

/* What never waits, and datagrams that find no room until somebody reads; what is wrong, or 0. */
static int datagrams(void) {
    int ends[2], sent = 0;
    struct sockaddr_un name = {AF_UNIX};
    char byte;
    struct timespec time = {0, 1000000};
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends)) return 1;
    struct msghdr message = {0};
    if (recvmsg(ends[0], &message, MSG_ERRQUEUE) != -1 || (errno != EAGAIN && errno != EOPNOTSUPP)) return 2;
    int server = socket(AF_UNIX, SOCK_DGRAM, 0), client = socket(AF_UNIX, SOCK_DGRAM, 0);
    sprintf(name.sun_path + 1, "waits-%d", getpid());
    if (bind(server, (struct sockaddr *)&name, sizeof name)) return 3;
    while (sendto(client, "d", 1, MSG_DONTWAIT, (struct sockaddr *)&name, sizeof name) == 1) sent++;
    /* The limit ends the wait: nobody reads. */
    struct timeval limit = {0, 50000};
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    clock_t before = clock();
    if (sendto(client, "d", 1, 0, (struct sockaddr *)&name, sizeof name) != -1 || errno != EAGAIN) return 4;
    if ((double)(clock() - before) / CLOCKS_PER_SEC > 0.03) return 5; /* it slept */
    if (recv(server, &byte, 1, 0) != 1 || sendto(client, "d", 1, 0, (struct sockaddr *)&name, sizeof name) != 1) return 6;
    nanosleep(&time, 0);
    return sent == 0 ? 7 : 0;
}

static int waits(const char *way, int in) {
    struct pollfd one = {in, POLLIN, 0};
    char byte;
    if (!strcmp(way, "read")) return read(in, &byte, 1) == 1 ? byte : -1;
    if (!strcmp(way, "readv")) {
        struct iovec part = {&byte, 1};
        return readv(in, &part, 1) == 1 ? byte : -1;
    }
    if (!strcmp(way, "poll")) {
        if (poll(&one, 1, 20) != 0) return -2;
        ready();
        if (poll(&one, 1, -1) != 1 || one.revents != POLLIN) return -3;
    }
    if (!strcmp(way, "ppoll")) {
        struct timespec time = {50, 0};
        if (ppoll(&one, 1, &time, 0) != 1) return -4;
    }
    if (!strcmp(way, "select")) {
        fd_set set, none;
        struct timeval time = {0, 20000};
        FD_ZERO(&set);
        FD_ZERO(&none);
        FD_SET(in, &set);
        if (select(in + 1, &set, &none, 0, &time) != 0 || FD_ISSET(in, &set) || time.tv_usec != 0) return -5;
        ready();
        time.tv_sec = 50;
        FD_SET(in, &set);
        if (select(in + 1, &set, &none, 0, &time) != 1 || !FD_ISSET(in, &set)) return -6;
        if (time.tv_sec >= 50) return -7;
    }
    if (!strcmp(way, "epoll")) {
        int set = epoll_create1(0);
        struct epoll_event event = {EPOLLIN, {.fd = 77}};
        epoll_ctl(set, EPOLL_CTL_ADD, in, &event);
        if (epoll_wait(set, &event, 1, 10) != 0 || epoll_wait(set, &event, 1, 50000) != 1 || event.data.fd != 77) return -8;
        close(set);
    }
    if (!strcmp(way, "full")) return full(in);
    if (!strcmp(way, "wide")) return wide(in);
    if (!strcmp(way, "recv")) return recv(in, &byte, 1, 0) == 1 ? byte : -1;
    if (!strcmp(way, "recvmsg")) {
        struct iovec part = {&byte, 1};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        return recvmsg(in, &message, 0) == 1 ? byte : -1;
    }
    return read(in, &byte, 1) == 1 ? byte : -1;
}

/* Calls that find nothing although something seems to happen, and end at their limit; the first that does not, or 0. */
static int odd(int socket) {
    int file = open("/dev/null", O_RDWR), gone[2], datagrams[2];
    fd_set except;
    struct timeval time = {0, 50000};
    char bytes[10];
    /* A file, which the kernel does not watch, beside what is awaited. */
    struct pollfd two[2] = {{file, POLLPRI, 0}, {socket, POLLIN, 0}};
    if (poll(two, 2, 50) != 0) return 1;
    /* One descriptor twice; it could be written to. */
    two[0].fd = socket;
    if (poll(two, 2, 50) != 0) return 2;
    FD_ZERO(&except);
    FD_SET(file, &except);
    if (select(file + 1, 0, 0, &except, &time) != 0) return 3;
    /* The other side is gone, which is none of these events. */
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, gone)) return 4;
    close(gone[1]);
    FD_ZERO(&except);
    FD_SET(gone[0], &except);
    time.tv_usec = 50000;
    if (select(gone[0] + 1, 0, 0, &except, &time) != 0) return 5;
    /* A message is whole, however short. */
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams) || send(datagrams[1], "abc", 3, 0) != 3) return 6;
    if (recv(datagrams[0], bytes, sizeof bytes, MSG_WAITALL) != 3) return 7;
    /* More bytes than can be counted. */
    struct iovec parts[2] = {{bytes, SIZE_MAX / 2 + 2}, {bytes, SIZE_MAX / 2 + 2}};
    if (writev(socket, parts, 2) != -1 || errno != EINVAL) return 8;
    return 0;
}

/* Calls that wait as long as the socket's own limit says, for what never comes; the first that does not say so, or 0. */
static int limited(void) {
    int ends[2], listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un any = {.sun_family = AF_UNIX}; /* a name that the kernel chooses */
    struct timeval limit = {0, 20000};
    char byte;
    struct iovec part = {&byte, 1};
    if (bind(listener, (struct sockaddr *)&any, sizeof any.sun_family) || listen(listener, 1)) return 1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 2;
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (read(ends[0], &byte, 1) != -1 || errno != EAGAIN) return 3;
    if (readv(ends[0], &part, 1) != -1 || errno != EAGAIN) return 4;
    if (recv(ends[0], &byte, 1, 0) != -1 || errno != EAGAIN) return 5;
    if (accept(listener, 0, 0) != -1 || errno != EAGAIN) return 6;
    if (accept4(listener, 0, 0, SOCK_CLOEXEC) != -1 || errno != EAGAIN) return 7;
    /* What is there is read in spite of the limit. */
    if (write(ends[1], "x", 1) != 1 || read(ends[0], &byte, 1) != 1) return 8;
    return 0;
}

int main(int argc, char **argv) {
    const char *way = argv[1];
    int rank = atoi(argv[2]), in = atoi(argv[3]), out = atoi(argv[4]);
    if (!strcmp(way, "sleep")) {
        double start = now();
        struct timespec time = {0, 100000000}, until;
        usleep(50000);
        nanosleep(&time, 0);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50000000;
        if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, 0);
        time.tv_nsec = -1;
        int refused = nanosleep(&time, 0) == -1 && errno == EINVAL;
        double took = now() - start;
        printf("slept %d, refused %d\n", took >= 0.29, refused);
        return 0;
    }
    if (!strcmp(way, "whole")) { /* more than the pipe or the socket takes, both ways */
        for (int i = 0; i < SIZE; i++) data[i] = (char)(i * 7);
        if (rank == 0) return write(out, data, SIZE) == SIZE ? (puts("written"), 0) : fail("write");
        for (int got = 0; got < SIZE;) {
            ssize_t n = read(in, more + got, SIZE - got);
            if (n <= 0) return fail("read");
            got += n;
        }
        printf("same %d\n", !memcmp(data, more, SIZE));
        return 0;
    }
    if (!strcmp(way, "waitall")) {
        for (int i = 0; i < SIZE; i++) data[i] = (char)(i * 7);
        if (rank == 0) return send(out, data, SIZE, 0) == SIZE ? (puts("written"), 0) : fail("send");
        if (recv(in, more, SIZE, MSG_WAITALL) != SIZE) return fail("recv");
        printf("same %d\n", !memcmp(data, more, SIZE));
        return 0;
    }
    if (!strcmp(way, "crowd")) { /* all but one read a byte from one descriptor */
        static const char bytes[240] = "";
        if (rank > 0) return read(in, data, 1) == 1 ? (puts("read"), 0) : fail("read");
        usleep(200000);
        return write(out, bytes, sizeof bytes) == sizeof bytes ? 0 : fail("write");
    }
    if (!strcmp(way, "odd")) {
        printf("odd %d\n", odd(out));
        return 0;
    }
    if (!strcmp(way, "datagrams")) {
        printf("datagrams %d\n", datagrams());
        return 0;
    }
    if (!strcmp(way, "limited")) {
        printf("limited %d\n", limited());
        return 0;
    }
    if (!strcmp(way, "nothing")) { /* of no bytes there is nothing to wait for */
        printf("nothing %zd\n", read(in, data, 0));
        return 0;
    }
    if (!strcmp(way, "yield")) { /* each waits for the other's word in a pipe, and yields meanwhile */
        struct pollfd one = {in, POLLIN, 0};
        if (rank == 0) return write(out, "x", 1) == 1 ? (puts("written"), 0) : fail("write");
        while (poll(&one, 1, 0) == 0) sched_yield();
        puts("seen");
        return 0;
    }
    /* The reader comes first (rank 0), so it waits while the writer has not run. */
    if (rank == 0) {
        if (strcmp(way, "poll") && strcmp(way, "select") && strcmp(way, "full") && strcmp(way, "wide")) ready();
        int got = waits(way, in);
        printf("%s got %c\n", way, got > 0 ? got : '0' - got);
        return got != 'w';
    }
    usleep(50000);
    while (!getenv("WAITS_READY")) usleep(1000);
    return write(out, "w", 1) == 1 ? 0 : fail("write");
}
