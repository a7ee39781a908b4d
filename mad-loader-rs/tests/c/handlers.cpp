// Ranks wait inside handlers of exceptions, and leave them in the order in which they came, not the reverse.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <unistd.h>

struct Error {
    int value;
    ~Error() { value = -1; }
};

int main(int argc, char **argv) {
    int rank = std::atoi(argv[1]), wrong = 0;
    for (int round = 0; round < 5; round++) {
        try {
            try {
                throw Error{rank};
            } catch (const Error &error) {
                usleep(20000);
                wrong += error.value != rank;
                throw;
            }
        } catch (const Error &error) {
            usleep(20000);
            wrong += error.value != rank;
        }
        wrong += std::uncaught_exceptions() != 0;
        wrong += std::current_exception() != nullptr;
        usleep(1000);
    }
    std::printf("%d: wrong %d\n", rank, wrong);
    return 0;
}
