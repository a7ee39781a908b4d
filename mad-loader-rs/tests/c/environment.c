/* The environment, and the names by which a program calls itself. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;
static int find(const char *text) {
    for (char **at = environ; *at; at++) if (!strcmp(*at, text)) return 1;
    return 0;
}
int main(int argc, char **argv, char **envp) {
    char name[32], text[64];
    sprintf(name, "RANK_%s", argv[1]);
    sprintf(text, "%s=here", name);
    int passed = 0;
    for (char **at = envp; *at; at++) if (!strcmp(*at, "PASSED=yes")) passed = 1;
    setenv(name, "here", 1);
    usleep(20000);
    printf("%s: passed %d, own %d, other's %d, %s, %s\n", argv[1], passed, find(text), find("RANK_0=here"),
           program_invocation_short_name, program_invocation_name);
    return 0;
}
