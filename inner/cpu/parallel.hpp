// Work over OpenMP threads. How it is split never changes a result.
//
// Under the thread sanitizer the same parts run on std::threads: it cannot see libgomp's barriers
// and would report every result that one thread reads of another, while here it finds parts that do
// race.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#ifdef __SANITIZE_THREAD__
#include <thread>
#include <vector>
#endif

namespace isthmus::inner {

/// Calls body(index, count) on `count` threads at most, for all of them at once.
template <class Body>
void on_threads(int count, Body&& body) {
#ifdef __SANITIZE_THREAD__
    std::vector<std::thread> threads;
    for (int index = 1; index < count; ++index)
        threads.emplace_back([&, index] { body(index, count); });
    body(0, count);
    for (std::thread& thread : threads) thread.join();
#else
#pragma omp parallel num_threads(count)
    body(omp_get_thread_num(), omp_get_num_threads());
#endif
}

/// Splits [0, n) into at most `threads` contiguous parts of nearly equal size and calls
/// fn(part, begin, end) once for each that is not empty. Parts depend on n, threads and `multiple`
/// only; every bound but the last is a multiple of `multiple`. fn must not throw.
template <class Fn>
void parallel_blocks(int threads, std::int64_t n, Fn&& fn, std::int64_t multiple = 1) {
    const std::int64_t units = (n + multiple - 1) / multiple;
    const auto parts = static_cast<int>(std::min<std::int64_t>(threads, units));
    const auto bound = [=](int part) {
        const std::int64_t whole = units / parts;
        const std::int64_t extra = std::min<std::int64_t>(part, units % parts);
        return std::min(n, (whole * part + extra) * multiple);
    };
    if (parts <= 1) {
        if (n > 0) fn(0, std::int64_t{0}, n);
        return;
    }
    // OpenMP may give fewer threads than asked for: the parts stay the same.
    on_threads(parts, [&](int thread, int threads_given) {
        for (int part = thread; part < parts; part += threads_given)
            fn(part, bound(part), bound(part + 1));
    });
}

/// Calls fn(thread, unit) for every unit in [0, n), in any order, on whichever thread is free (for
/// units of unequal cost). REQUIRES units write to different places; 0 <= thread < threads picks
/// scratch.
template <class Fn>
void parallel_units(int threads, std::int64_t n, Fn&& fn) {
    const auto used = static_cast<int>(std::min<std::int64_t>(threads, n));
    if (used <= 1) {
        for (std::int64_t unit = 0; unit < n; ++unit) fn(0, unit);
        return;
    }
    std::atomic<std::int64_t> next{0};
    on_threads(used, [&](int thread, int) {
        for (std::int64_t unit = next++; unit < n; unit = next++) fn(thread, unit);
    });
}

}  // namespace isthmus::inner
