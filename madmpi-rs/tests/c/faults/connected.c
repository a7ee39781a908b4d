/* Jobs that connect with each other, start others, and end in all ways. Usage: connected MODE [FILE] */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static const char *class_of(int code) {
    int class = code;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    switch (class) {
    case MPI_SUCCESS: return "success";
    case MPI_ERR_SPAWN: return "spawn";
    case MPI_ERR_PORT: return "port";
    case MPI_ERR_NAME: return "name";
    case MPI_ERR_SERVICE: return "service";
    case MPI_ERR_PROC_ABORTED: return "it is gone";
    case MPI_ERR_ARG: return "argument";
    case MPI_ERR_COMM: return "communicator";
    default: return "another error";
    }
}

/* All ranks print in turn, so that the output has an order. */
static void say(const char *what, int code) {
    int at;
    for (at = 0; at < size; at++) {
        if (at == rank) {
            printf("rank %d: %s: %s\n", rank, what, class_of(code));
            fflush(stdout);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void put(const char *file, const char *port) {
    char fresh[4096];
    FILE *out;
    snprintf(fresh, sizeof fresh, "%s.new", file);
    out = fopen(fresh, "w");
    fputs(port, out);
    fclose(out);
    rename(fresh, file);
}

static void take(const char *file, char *port) {
    FILE *in;
    while (!(in = fopen(file, "r")))
        usleep(2000);
    if (!fgets(port, MPI_MAX_PORT_NAME, in))
        MPI_Abort(MPI_COMM_WORLD, 1);
    fclose(in);
}

/* Both jobs say hello to each of the other. */
static void exchange(MPI_Comm inter) {
    int theirs = -1, n, at, sum, mine = rank + 1;
    MPI_Request requests[8];
    MPI_Comm all;
    MPI_Comm_remote_size(inter, &n);
    for (at = 0; at < n; at++)
        MPI_Isend(&rank, 1, MPI_INT, at, 1, inter, &requests[at]);
    for (at = 0; at < n; at++)
        MPI_Recv(&theirs, 1, MPI_INT, MPI_ANY_SOURCE, 1, inter, MPI_STATUS_IGNORE);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
    if (sum != n * (n + 1) / 2)
        printf("wrong sum %d\n", sum);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_ARE_FATAL);
    MPI_Intercomm_merge(inter, 0, &all);
    MPI_Barrier(all);
    MPI_Comm_disconnect(&all);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    const char *file = argc > 2 ? argv[2] : "";
    char port[MPI_MAX_PORT_NAME] = "";
    int code, at, codes[4] = {0, 0, 0, 0};
    MPI_Comm inter, parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_parent(&parent);

    if (!strncmp(mode, "accept", 6)) {
        if (rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            put(file, port);
        }
        code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        say("accept", code);
        exchange(inter);
        if (!strcmp(mode, "accept-then-wait")) {
            /* The other job dies before it has disconnected. */
            int never;
            code = MPI_Recv(&never, 1, MPI_INT, 0, 77, inter, MPI_STATUS_IGNORE);
            say("receive", code);
            MPI_Comm_disconnect(&inter);
        } else {
            MPI_Comm_disconnect(&inter);
            if (!strcmp(mode, "accept-then-go-on")) {
                /* The other job dies now, which is its own affair. */
                char done[4096];
                int n = 0;
                snprintf(done, sizeof done, "%s.killed", file);
                while (access(done, F_OK))
                    usleep(2000);
                for (at = 0; at < 100; at++)
                    code = MPI_Allreduce(&rank, &n, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
                say("afterwards", code);
            }
        }
        if (rank == 0)
            MPI_Close_port(port);
    } else if (!strncmp(mode, "connect", 7)) {
        if (rank == 0)
            take(file, port);
        code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        say("connect", code);
        exchange(inter);
        if (!strcmp(mode, "connect-then-die")) {
            MPI_Barrier(MPI_COMM_WORLD);
            raise(SIGKILL);
        }
        MPI_Comm_disconnect(&inter);
        if (!strcmp(mode, "connect-then-die-late")) {
            char done[4096];
            MPI_Barrier(MPI_COMM_WORLD);
            snprintf(done, sizeof done, "%s.killed", file);
            if (rank == 0)
                put(done, "x\n");
            raise(SIGKILL);
        }
    } else if (!strcmp(mode, "names")) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        say("lookup", MPI_Lookup_name("no such service of madmpi's tests", MPI_INFO_NULL, port));
        say("unpublish", MPI_Unpublish_name("no such service of madmpi's tests", MPI_INFO_NULL, "x"));
        say("connect nonsense", MPI_Comm_connect("nonsense", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        say("accept at no port", MPI_Comm_accept("nonsense", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        MPI_Open_port(MPI_INFO_NULL, port);
        say("publish", MPI_Publish_name(file, MPI_INFO_NULL, port));
        say("publish again", MPI_Publish_name(file, MPI_INFO_NULL, port));
        say("unpublish", MPI_Unpublish_name(file, MPI_INFO_NULL, port));
        say("close", MPI_Close_port(port));
        say("close again", MPI_Close_port(port));
        say("connect closed", MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    } else if (!strcmp(mode, "spawn")) {
        /* FILE is a program that exists, or not, or does not become a process of MPI. */
        char *words[] = {"600", NULL};
        code = MPI_Comm_spawn((char *)file, argc > 3 ? MPI_ARGV_NULL : words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
        say("spawn", code);
        if (inter != MPI_COMM_NULL || codes[0] != code || codes[1] != code || codes[2])
            printf("rank %d: wrong codes\n", rank);
        /* The job is none the worse. */
        say("afterwards", MPI_Barrier(MPI_COMM_WORLD));
        MPI_Comm_spawn(argv[0], (char *[]){"child", NULL}, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
        MPI_Comm_disconnect(&inter);
        say("spawn again", MPI_SUCCESS);
    } else if (!strcmp(mode, "wrong")) {
        char *words[] = {"child", NULL};
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "wd", "/no/such/folder");
        say("no folder", MPI_Comm_spawn(argv[0], words, 1, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        MPI_Info_delete(info, "wd");
        MPI_Info_set(info, "host", "no-such-host-of-madmpi");
        say("no host", MPI_Comm_spawn(argv[0], words, 1, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        MPI_Info_delete(info, "host");
        MPI_Info_set(info, "soft", "7");
        say("no number", MPI_Comm_spawn(argv[0], words, 3, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        say("none", MPI_Comm_spawn(argv[0], words, 0, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        MPI_Info_set(info, "soft", "1:2");
        say("some", MPI_Comm_spawn(argv[0], words, 3, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        MPI_Comm_remote_size(inter, &at);
        if (at != 2)
            printf("%d processes\n", at);
        MPI_Comm_disconnect(&inter);
        MPI_Info_free(&info);
    } else if (!strcmp(mode, "child")) {
        MPI_Comm_disconnect(&parent);
    } else if (!strcmp(mode, "parent-of-victims")) {
        int never;
        char *words[] = {"victim", (char *)file, NULL};
        MPI_Comm_spawn(argv[0], words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        if (!strcmp(file, "late"))
            MPI_Comm_disconnect(&inter);
        else {
            code = MPI_Recv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 1, inter, MPI_STATUS_IGNORE);
            say("receive", code);
            MPI_Comm_disconnect(&inter);
        }
        say("afterwards", MPI_Barrier(MPI_COMM_WORLD));
    } else if (!strcmp(mode, "victim")) {
        if (!strcmp(file, "late"))
            MPI_Comm_disconnect(&parent);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!strcmp(file, "sleep"))
            pause();
        raise(SIGKILL);
    }
    MPI_Finalize();
    return 0;
}
