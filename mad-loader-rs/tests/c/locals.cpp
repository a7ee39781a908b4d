// Thread-local objects of each copy: their constructors and destructors, those of templates too.
#include <iostream>
#include <string>
#include <thread>
#include <unistd.h>

struct Object {
    std::string name = "new";
    ~Object() { std::cout << name + " destroyed\n" << std::flush; }
};
static thread_local Object object;
template <class T> struct Counter {
    static int shared;
    static thread_local int own;
};
template <class T> int Counter<T>::shared = 0;
template <class T> thread_local int Counter<T>::own = 0;

int main(int argc, char **argv) {
    std::string rank = argv[1];
    object.name = "object " + rank;
    for (int i = 0; i < 3; i++) {
        Counter<int>::shared++;
        Counter<int>::own++;
        usleep(2000);
    }
    std::thread([&] { object.name = "thread " + rank; }).join();
    std::cout << rank + ": " + object.name + ", " + std::to_string(Counter<int>::shared) + " " +
                     std::to_string(Counter<int>::own) + "\n"
              << std::flush;
    return 0;
}
