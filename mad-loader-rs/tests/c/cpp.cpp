// Exceptions, streams, static objects and templates' statics of each copy.
#include <cstdlib>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/single_threaded.h>
#include <thread>
#include <unistd.h>
#include <vector>

template <class T> struct Counter { static int count; };
template <class T> int Counter<T>::count = 0;
inline int &inlined() { static int value = 0; return value; }

struct Static {
    std::string name;
    std::map<int, std::string> numbers{{1, "one"}};
    ~Static() { std::cout << name + " destroyed " + numbers[1] + "\n"; }
};
static Static object{"nobody"};

int main(int argc, char **argv) {
    if (__libc_single_threaded) // and counts of owners are not atomic
        return 4;
    std::ios_base::sync_with_stdio(false);
    object.name = "object " + std::string(argv[1]);
    static Static local{"local " + std::string(argv[1])};
    for (int i = 0; i < 3; i++) {
        Counter<int>::count++;
        inlined()++;
        usleep(2000);
    }
    std::string caught;
    try {
        usleep(2000);
        throw std::runtime_error("thrown " + std::string(argv[1]));
    } catch (const std::exception &error) {
        usleep(2000);
        caught = error.what();
    }
    int sum = 0;
    std::thread([&] { sum = std::stoi(argv[1]) + 1; }).join();
    std::cout << std::string(argv[1]) + ": " + caught + ", " + std::to_string(Counter<int>::count) + " " +
                     std::to_string(inlined()) + ", thread " + std::to_string(sum) + "\n" << std::flush;
    if (argc > 2) throw std::logic_error("uncaught");
    std::exit(0);
}
