// The team of threads: every item once, errors and interruptions carried out, and usable after both.

#include "parallel.hpp"

#include <cassert>
#include <stdexcept>
#include <string>

using namespace vicinal;

namespace {

constexpr std::int64_t sizes[] = {0, 1, 2, 3, 7, 100, 5000};

void counts_every_item_once(Team& team, std::int64_t n) {
    std::vector<std::atomic<int>> times(n);
    team.for_each(n, [&](std::int64_t item, int member) {
        assert(member >= 0 && member < team.size());
        ++times[item];
    });
    for (const auto& t : times) assert(t == 1);
}

void every_item_runs_once() {
    for (int n_threads = 1; n_threads <= 8; ++n_threads) {
        Team team(n_threads);
        assert(team.size() == n_threads);
        for (const std::int64_t n : sizes) counts_every_item_once(team, n);
    }
    assert(Team(0).size() == 1);
}

void no_two_items_share_a_member() {
    Team team(4);
    std::atomic<bool> busy[4] = {};
    team.for_each(2000, [&](std::int64_t, int member) {
        assert(!busy[member].exchange(true));
        busy[member] = false;
    });
}

void ranges_are_cut_without_gaps() {
    Team team(3);
    for (const std::int64_t n : sizes)
        for (const std::int64_t grain : {1, 3, 64}) {
            std::vector<std::atomic<int>> times(n);
            for_ranges(team, n, grain, [&](std::int64_t begin, std::int64_t end, int) {
                assert(end - begin <= grain);
                for (std::int64_t i = begin; i < end; ++i) ++times[i];
            });
            for (const auto& t : times) assert(t == 1);
        }
}

void an_exception_comes_out_and_the_team_goes_on() {
    for (int n_threads = 1; n_threads <= 8; ++n_threads) {
        Team team(n_threads);
        for (const std::int64_t bad : {0, 1, 57, 999}) {
            std::string caught;
            try {
                team.for_each(1000, [&](std::int64_t item, int) {
                    team.check();
                    if (item == bad) throw std::runtime_error("item " + std::to_string(item));
                });
            } catch (const std::runtime_error& error) {
                caught = error.what();
            }
            assert(caught == "item " + std::to_string(bad));
            counts_every_item_once(team, 100);
        }
    }
}

// Once with short items, which the team itself stops between, and once with a single endless one,
// which has to ask.
void an_interruption_stops_the_loop() {
    for (const int n_threads : {1, 2, 4, 8})
        for (const bool endless : {false, true}) {
            std::atomic<bool> pressed = true;
            Team team(n_threads, [&] { return pressed.load(); });
            std::atomic<std::int64_t> done = 0;
            bool stopped = false;
            try {
                team.for_each(1'000'000, [&](std::int64_t, int) {
                    while (endless) team.check();
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    ++done;
                });
            } catch (const Interrupted&) {
                stopped = true;
            }
            assert(stopped && done < 1'000'000);
            pressed = false;
            counts_every_item_once(team, 100);
        }
}

// The calling thread has nothing left to do while another member still works.
void an_interruption_is_seen_while_waiting() {
    std::atomic<bool> pressed = false;
    Team team(2, [&] { return pressed.load(); });
    bool stopped = false;
    try {
        team.for_each(2, [&](std::int64_t, int member) {
            if (member == 0) {
                while (!pressed) std::this_thread::yield();
                return;
            }
            pressed = true;
            while (true) team.check();
        });
    } catch (const Interrupted&) {
        stopped = true;
    }
    assert(stopped);
}

void the_user_is_asked_by_the_calling_thread_only() {
    const auto caller = std::this_thread::get_id();
    std::atomic<int> asked = 0;
    Team team(4, [&] {
        assert(std::this_thread::get_id() == caller);
        ++asked;
        return false;
    });
    team.for_each(400, [&](std::int64_t, int) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        team.check();
    });
    assert(asked > 0);
}

}  // namespace

int main() {
    every_item_runs_once();
    no_two_items_share_a_member();
    ranges_are_cut_without_gaps();
    an_exception_comes_out_and_the_team_goes_on();
    an_interruption_stops_the_loop();
    an_interruption_is_seen_while_waiting();
    the_user_is_asked_by_the_calling_thread_only();
}
