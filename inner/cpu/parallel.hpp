// Work over OpenMP threads. How it is split never changes a result.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace isthmus::inner {

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
#pragma omp parallel num_threads(parts)
    {
        // OpenMP may give fewer threads than asked for: the parts stay the same.
        for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads())
            fn(part, bound(part), bound(part + 1));
    }
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
#pragma omp parallel for schedule(dynamic, 1) num_threads(used)
    for (std::int64_t unit = 0; unit < n; ++unit) fn(omp_get_thread_num(), unit);
}

}  // namespace isthmus::inner
