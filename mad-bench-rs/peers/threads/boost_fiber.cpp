// Boost.Fiber: round robin on one worker, work stealing on several, as its own benchmarks have it.
//
// Its default allocator maps and unmaps each stack, its pool is for one thread; so stacks of its default size are kept
// here by each thread, as a program would that starts many fibers. Forking starts the child at once
// (launch::dispatch), which is the order that keeps the number of fibers small.

#include <atomic>
#include <boost/fiber/all.hpp>
#include <boost/version.hpp>
#include <mutex>
#include <new>
#include <thread>
#include <unistd.h>
#include <vector>

#define VERSION "Boost.Fiber " BOOST_LIB_VERSION

using namespace boost::fibers;

typedef void (*body_t)(void *);
#define BODY(name) static void name(void *arg)
#define END return

struct stacks {
    static std::vector<void *> &free_ones()
    {
        static thread_local std::vector<void *> free_ones;
        return free_ones;
    }
    boost::context::stack_context allocate()
    {
        auto &free = free_ones();
        boost::context::stack_context stack;
        stack.size = boost::context::stack_traits::default_size();
        void *bottom = free.empty() ? std::malloc(stack.size) : free.back();
        if (!bottom)
            throw std::bad_alloc();
        if (!free.empty())
            free.pop_back();
        stack.sp = static_cast<char *>(bottom) + stack.size;
        return stack;
    }
    void deallocate(boost::context::stack_context &stack)
    {
        free_ones().push_back(static_cast<char *>(stack.sp) - stack.size);
    }
};

static launch order = launch::post;
typedef boost::fibers::fiber thread_t;
static inline void start_thread(thread_t *thread, body_t body, void *arg)
{
    new (thread) thread_t(order, std::allocator_arg, stacks(), body, arg);
}
static inline void join_thread(thread_t *thread)
{
    thread->join();
}
static inline void yield_thread()
{
    boost::this_fiber::yield();
}

typedef boost::fibers::mutex mutex_t;
static inline void mutex_init(mutex_t *mutex)
{
    new (mutex) mutex_t;
}
static inline void mutex_lock(mutex_t *mutex)
{
    mutex->lock();
}
static inline void mutex_unlock(mutex_t *mutex)
{
    mutex->unlock();
}

typedef boost::fibers::condition_variable cond_t;
static inline void cond_init(cond_t *cond)
{
    new (cond) cond_t;
}
static inline void cond_wait(cond_t *cond, mutex_t *mutex)
{
    std::unique_lock<mutex_t> lock(*mutex, std::adopt_lock);
    cond->wait(lock);
    lock.release();
}
static inline void cond_signal(cond_t *cond)
{
    cond->notify_one();
}
static inline void cond_broadcast(cond_t *cond)
{
    cond->notify_all();
}

#define HAS_CHANNEL
// One of its two slots stays empty.
typedef buffered_channel<long> channel_t;
static inline void channel_init(channel_t *channel)
{
    new (channel) channel_t(2);
}
static inline void channel_send(channel_t *channel, long number)
{
    channel->push(number);
}
static inline long channel_receive(channel_t *channel)
{
    return channel->value_pop();
}

#include "ops.h"

int main(int argc, char **argv)
{
    arguments(argc, argv);
    if (!strcmp(argv[1], "fib"))
        order = launch::dispatch;
    if (workers == 1) {
        measure(argv);
        return 0;
    }
    static std::atomic<int> ready;
    auto start = [] {
        use_scheduling_algorithm<algo::work_stealing>(workers);
        // A worker steals from all others: all have to be there first.
        for (ready++; ready < workers;)
            std::this_thread::yield();
    };
    for (int i = 1; i < workers; i++)
        std::thread([start] {
            start();
            mutex_t mutex;
            cond_t never;
            std::unique_lock<mutex_t> lock(mutex);
            never.wait(lock, [] { return false; });
        }).detach();
    start();
    measure(argv);
    _exit(0);
}
