// A team of threads that belongs to one call: made by it, joined at its end, shared with nobody.
//
// Items are handed out one at a time (dynamic scheduling), so a slow item never holds up the others.
// An exception in any item stops the loop and is thrown again in the calling thread. The calling
// thread works too, and at least every 50 ms asks `interrupted` whether the user wants to stop;
// an item that may run long calls `team.check()` inside.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace vicinal {

struct Interrupted : std::exception {
    const char* what() const noexcept override { return "interrupted"; }
};

class Team {
  public:
    using Body = std::function<void(std::int64_t item, int member)>;

    static constexpr int most_threads = 1024;  // more are a slip, or the number in a made-up file

    explicit Team(int n_threads, std::function<bool()> interrupted = {})
        : interrupted_(std::move(interrupted)), caller_(std::this_thread::get_id()) {
        n_threads = std::clamp(n_threads, 1, most_threads);
        next_poll_ = Clock::now() + poll_interval;
        size_ = n_threads;
    }

    ~Team() {
        {
            const std::lock_guard lock(mutex_);
            closing_ = true;
        }
        wake_.notify_all();
    }

    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return size_; }

    // Runs body(item, member) for every item in [0, n); member in [0, size()) names the thread.
    void for_each(std::int64_t n, const Body& body) {
        check();
        if (size_ == 1 || n < 2) {
            for (std::int64_t i = 0; i < n; ++i) {
                body(i, 0);
                check();
            }
            return;
        }
        start_threads();
        {
            const std::lock_guard lock(mutex_);
            body_ = &body;
            n_items_ = n;
            next_item_.store(0);
            working_ = size_ - 1;
            ++generation_;
        }
        wake_.notify_all();
        work(0);
        std::unique_lock lock(mutex_);
        while (!done_.wait_for(lock, poll_interval, [&] { return working_ == 0; })) {
            lock.unlock();
            poll_quietly();
            lock.lock();
        }
        body_ = nullptr;
        if (error_) {
            stop_.store(false);
            std::rethrow_exception(std::exchange(error_, nullptr));
        }
    }

    // Throws where the loop has been stopped, by the user or by an error in another item.
    void check() {
        if (stop_.load(std::memory_order_relaxed)) throw Interrupted();
        if (std::this_thread::get_id() == caller_ && Clock::now() >= next_poll_) {
            next_poll_ = Clock::now() + poll_interval;
            if (interrupted_ && interrupted_()) throw Interrupted();
        }
    }

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds poll_interval{50};

    // Where the system has no thread left for us, those there are will do.
    void start_threads() {
        for (int member = static_cast<int>(threads_.size()) + 1; member < size_; ++member) try {
                threads_.emplace_back([this, member] { serve(member); });
            } catch (const std::system_error&) {
                size_ = member;
            }
    }

    void serve(int member) {
        std::int64_t seen = 0;
        std::unique_lock lock(mutex_);
        while (true) {
            wake_.wait(lock, [&] { return closing_ || generation_ != seen; });
            if (closing_) return;
            seen = generation_;
            lock.unlock();
            work(member);
            lock.lock();
            if (--working_ == 0) done_.notify_one();
        }
    }

    void work(int member) {
        try {
            while (!stop_.load(std::memory_order_relaxed)) {
                const std::int64_t item = next_item_.fetch_add(1);
                if (item >= n_items_) return;
                (*body_)(item, member);
                if (member == 0) check();
            }
        } catch (...) {
            record(std::current_exception());
        }
    }

    void poll_quietly() {
        try {
            if (!stop_.load()) check();
        } catch (...) {
            record(std::current_exception());
        }
    }

    // The first error is the cause; what follows it is only members stopping.
    void record(std::exception_ptr error) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = error;
        stop_.store(true);
    }

    std::function<bool()> interrupted_;
    std::thread::id caller_;
    Clock::time_point next_poll_;
    int size_ = 1;

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    const Body* body_ = nullptr;
    std::int64_t n_items_ = 0;
    std::int64_t generation_ = 0;
    std::atomic<std::int64_t> next_item_{0};
    int working_ = 0;
    bool closing_ = false;
    std::atomic<bool> stop_{false};
    std::exception_ptr error_;
    std::vector<std::jthread> threads_;  // last: joined before the members they use are gone
};

// One T for each member of a team, on cache lines of its own: members that write to one line, each to
// its own part, would wait for each other at every write.
template <class T>
class PerMember {
  public:
    explicit PerMember(const Team& team) : slots_(team.size()) {}
    PerMember(const Team& team, const T& value) : slots_(team.size(), Slot{value}) {}
    T& operator[](int member) { return slots_[member].value; }
    auto begin() const { return slots_.begin(); }
    auto end() const { return slots_.end(); }

  private:
    struct alignas(128) Slot {  // processors fetch lines in pairs
        T value{};
        operator const T&() const { return value; }
    };
    std::vector<Slot> slots_;
};

// Cuts [0, n) into ranges of at most `grain` and runs body(begin, end, member) on each.
template <class Body>
void for_ranges(Team& team, std::int64_t n, std::int64_t grain, const Body& body) {
    team.for_each((n + grain - 1) / grain, [&](std::int64_t range, int member) {
        body(range * grain, std::min(n, (range + 1) * grain), member);
    });
}

}  // namespace vicinal
